"""Matching tools against an allowlist and a deny list."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools_app.policy.catalog import GROUPS, NATIVE_NAMES, OPENCLAW_GROUP, PLUGINS_GROUP
from tools_app.policy.matcher import (
    ALLOW_ENTRY,
    DENY_ENTRY,
    NO_LIMIT,
    NOT_LISTED,
    LayerPolicy,
    classify_entry,
    compile_entries,
    has_only_plugins,
)
from tools_app.policy.query import ToolFacts

READ = ToolFacts("read", ("fs", "openclaw"))
EXEC = ToolFacts("exec", ("runtime", "openclaw"))
POST = ToolFacts("acme_post", ("plugins",), plugin="acme")

names = st.sampled_from(sorted(NATIVE_NAMES)) | st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)
tools = st.builds(ToolFacts, names, st.lists(st.sampled_from(sorted(GROUPS)), max_size=3).map(tuple), st.sampled_from(["", "acme"]))
entries = (
    names | st.sampled_from(["*", "sessions_*", "bash", "Read", " group:fs ", "", "  ", "group:nope", "acme"]) | st.text(max_size=8)
)
lists = st.lists(entries, max_size=5).map(tuple)


def judged(opinion, tool):
    (step,) = opinion.judge("agent", [tool])
    return step.effect, step.rule.code, step.rule.params


def matches(entry, tool):
    return compile_entries((entry,)).find(tool) is not None


@pytest.mark.parametrize(
    ("entry", "tool"),
    [
        ("*", READ),
        ("read", READ),
        (" READ ", READ),
        ("re*", READ),
        ("read*", READ),
        ("group:fs", READ),
        ("Group:FS", READ),
        (f"group:{OPENCLAW_GROUP}", READ),
        ("bash", EXEC),
        ("BASH", EXEC),
        ("apply-patch", ToolFacts("apply_patch")),
        ("acme", POST),
        ("acme_*", POST),
        (f"group:{PLUGINS_GROUP}", POST),
        ("mixed_case", ToolFacts("Mixed_Case")),
        ("mixed_*", ToolFacts("Mixed_Case")),
    ],
)
def test_entry_matches_tool(entry, tool):
    assert matches(entry, tool)


@pytest.mark.parametrize(
    ("entry", "tool"),
    [
        ("", READ),
        ("  ", READ),
        ("rea", READ),
        ("reads", READ),
        ("*ad", READ),
        ("r*d", READ),
        ("fs", READ),
        ("group:", READ),
        ("group:*", READ),
        ("group:runtime", READ),
        ("group:read", READ),
        ("group:acme", POST),
        ("acme", READ),
        (f"group:{OPENCLAW_GROUP}", POST),
    ],
)
def test_other_entries_match_nothing(entry, tool):
    assert not matches(entry, tool)


def test_deny_is_checked_before_allow():
    assert judged(LayerPolicy(allow=("*", "read"), deny=("read",)), READ) == ("deny", DENY_ENTRY[0], {"entry": "read"})


def test_empty_allowlist_does_not_limit():
    assert judged(LayerPolicy(deny=("exec",)), READ) == ("none", NO_LIMIT[0], {})


def test_allowlist_allows_only_listed_tools():
    assert judged(LayerPolicy(allow=("group:fs",)), READ) == ("allow", ALLOW_ENTRY[0], {"entry": "group:fs"})
    assert judged(LayerPolicy(allow=("group:fs",)), EXEC) == ("deny", NOT_LISTED[0], {})


@pytest.mark.parametrize("entry", ["", "reed", "group:nope", "r*d", "no-such-plugin"])
def test_allowlist_without_matches_allows_nothing(entry):
    assert judged(LayerPolicy(allow=(entry,)), READ)[0] == "deny"


@settings(deadline=None)
@given(tools, lists, lists)
def test_deny_always_wins(tool, allow, deny):
    if any(matches(entry, tool) for entry in deny):
        assert judged(LayerPolicy(allow=allow, deny=deny), tool)[0] == "deny"


@settings(deadline=None)
@given(tools, lists, lists, entries)
def test_additional_deny_entry_never_allows_more(tool, allow, deny, more):
    before, after = LayerPolicy(allow=allow, deny=deny), LayerPolicy(allow=allow, deny=(*deny, more))
    if judged(before, tool)[0] == "deny":
        assert judged(after, tool)[0] == "deny"


@settings(deadline=None)
@given(tools, lists, lists, st.randoms())
def test_order_of_entries_does_not_matter(tool, allow, deny, random):
    mixed = list(allow), list(deny)
    for each in mixed:
        random.shuffle(each)
    one, other = LayerPolicy(allow=allow, deny=deny), LayerPolicy(allow=tuple(mixed[0]), deny=tuple(mixed[1]))
    assert judged(one, tool)[0] == judged(other, tool)[0]


@pytest.mark.parametrize("entries", [("*", "group:fs", "read"), ("read", "*", "group:fs"), ("group:fs", "read", "*")])
def test_most_specific_entry_is_named_regardless_of_order(entries):
    assert judged(LayerPolicy(allow=entries), READ)[2] == {"entry": "read"}
    assert judged(LayerPolicy(allow=entries), EXEC)[2] == {"entry": "*"}


PLUGIN_NAMES = ("acme", "acme_post", "weather", "weather__today")


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ("read", "core"),
        ("BASH", "core"),
        ("*", "core"),
        ("sessions_*", "core"),
        ("w*", "core"),  # matches web_fetch, although it also matches weather__today
        ("group:fs", "core"),
        ("group:openclaw", "core"),
        ("canvas", "core"),  # native, although it is not offered yet
        ("acme", "plugin"),
        ("acme_post", "plugin"),
        ("weather__*", "plugin"),
        ("group:plugins", "plugin"),
        ("acne", "unknown"),
        ("group:nope", "unknown"),
        ("zebra_*", "unknown"),
        ("", "unknown"),
    ],
)
def test_entry_is_classified_as_core_plugin_or_unknown(entry, kind):
    assert classify_entry(entry, frozenset(PLUGIN_NAMES)) == kind


@pytest.mark.parametrize(
    ("entries", "answer"),
    [
        (("acme",), True),
        (("acme", "weather__*", "group:plugins"), True),
        (("acme", "acne"), False),  # a typo never lifts a limit
        (("acme", ""), False),
        (("acme", "read"), False),
        (("nothing_such",), False),
        ((), False),
    ],
)
def test_list_has_only_plugins_if_every_entry_is_a_plugin(entries, answer):
    assert has_only_plugins(entries, PLUGIN_NAMES) is answer
