"""The policy as a file: export, import, diff and errors."""

import threading

import pytest
from django.db import connection

from clawsite.infra.errors import Conflict, InvalidRequest
from tests.db.test_policy_versions import EVERY_KIND, numbers, stored_rows
from tools_app.models import PolicyTest, PolicyVersion
from tools_app.policy.expectations import Expectation
from tools_app.policy.rules import RuleRow
from tools_app.policy_store import files
from tools_app.policy_store.files import PolicyFile, build_current_file, diff_with_current, import_file, parse_file
from tools_app.policy_store.policies import DEFAULT_RULES, current_rules, replace_policies, rules_at, save_policy
from tools_app.policy_store.policy_tests import save_test

pytestmark = pytest.mark.usefixtures("fresh_policy")

TESTS = (
    Expectation("no exec in groups", "never", "exec", channel="telegram", group="*", sender="u1", provider="openai"),
    Expectation("subagents read", "allowed", "read", agent="main", subagent=True, sandboxed=True),
)


def test_file_round_trips():
    file = PolicyFile(tuple(sorted(EVERY_KIND, key=lambda row: row.scope_values)), TESTS)
    assert parse_file(file.to_yaml()) == file


def test_export_and_import_only_changes_version():
    replace_policies(EVERY_KIND)
    PolicyTest.objects.create(name="no gateway", expected="never", tool="gateway")
    before = build_current_file()
    assert diff_with_current(parse_file(before.to_yaml())) == ""
    assert import_file(parse_file(before.to_yaml()), expected_version=2) == 3
    assert stored_rows() == set(EVERY_KIND)
    assert build_current_file() == before


def test_file_omits_empty_fields():
    assert build_current_file().to_yaml().splitlines()[1:] == [
        *("policies:", "- scope: agent", "  subject: main", "  profile: coding"),
        *("- scope: global", "  profile: minimal", "tests: []"),
    ]


def test_earlier_version_can_be_exported():
    save_policy(scope="global", profile="full")
    assert "profile: minimal" in build_current_file(rules_at(1)).to_yaml()


def test_diff_shows_removed_and_added_lines():
    file = parse_file("policies: [{scope: global, profile: minimal}, {scope: agent, subject: main, profile: coding, deny: [exec]}]")
    told = diff_with_current(file).splitlines()
    assert told[:2] == ["--- in force", "+++ file"]
    assert [line for line in told[2:] if line[0] in "+-"] == ["+  deny:", "+  - exec"]
    assert stored_rows() == set(DEFAULT_RULES)


def test_ids_and_names_are_read_as_strings():
    """YAML would read each of these as a number, a boolean or a date."""
    text = """
policies:
- {scope: group, channel: telegram, group: -100123456, deny: [exec]}
- {scope: group, channel: telegram, group: 007, deny: [exec]}
- {scope: group, channel: telegram, group: -1, sender: +4915112, deny: [exec]}
- {scope: group, channel: telegram, group: 2026-01-01, sender: no, deny: [exec]}
- {scope: group, channel: telegram, group: 1_000, sender: 12:30, deny: [exec]}
tests:
- {name: 1, expected: never, tool: exec, group: -1, channel: telegram, sandboxed: true, subagent: false}
"""
    file = parse_file(text)
    assert [(row.group, row.sender) for row in file.rows] == [
        *(("-100123456", ""), ("007", ""), ("-1", "+4915112"), ("2026-01-01", "no"), ("1_000", "12:30")),
    ]
    assert file.tests == (Expectation("1", "never", "exec", channel="telegram", group="-1", sandboxed=True),)
    assert parse_file(file.to_yaml()).rows == tuple(sorted(file.rows, key=lambda row: row.scope_values))


def test_field_without_value_is_empty():
    file = parse_file("policies: [{scope: global, subject: , provider: null, profile: ~, allow: , deny: null}]\ntests:")
    assert file == PolicyFile((RuleRow("global"),), ())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("policies: [", "not valid YAML: "),
        ("policies: !!python/object/apply:os.getcwd []", "not valid YAML: "),
        ("just words", "a policy file must be a mapping with the keys `policies` and `tests`"),
        ("", "a policy file must be a mapping"),
        ("rules: []", "a policy file must be a mapping"),
        ("policies: {scope: global}", "`policies` must be a list"),
        ("policies: [global]", "policy 1 is not a mapping"),
        ("policies: [{scope: global}, {scope: agent, alow: [read]}]", "policy 2 has unknown fields: alow"),
        ("policies: [{scope: global, deny: exec}]", "policy 1: `deny` must be a list"),
        ("policies: [{scope: global, deny: [[exec]]}]", "policy 1: `deny` must be a list of strings"),
        ("policies: [{scope: [global]}]", "policy 1: `scope` must be a string"),
        ("tests: [{name: x}]", "test 1: missing expected, tool"),
        ("tests: [{name: x, expected: sometimes, tool: exec}]", "test 1: `expected` must be one of never, allowed"),
        ("tests: [{name: x, expected: never, tool: exec, sandboxed: perhaps}]", "test 1: `sandboxed` must be true or false"),
        (f"tests: [{{name: {'x' * 121}, expected: never, tool: exec}}]", "test 1: `name` exceeds 120 characters"),
        ("tests: [{name: x, expected: never, tool: a}, {name: x, expected: never, tool: b}]", "duplicate test names: x"),
    ],
)
def test_invalid_policy_file_is_explained(text, words):
    with pytest.raises(InvalidRequest) as refusal:
        parse_file(text)
    assert str(refusal.value).startswith(words)


def test_maximum_lengths_match_model_fields():
    assert {name: PolicyTest._meta.get_field(name).max_length for name in Expectation.TEXT_FIELDS} == files.MAX_LENGTHS


@pytest.mark.parametrize(
    "text",
    [
        "policies: [{scope: global, profile: codng}]",
        "policies: [{scope: global}, {scope: global}]",
        "policies: [{scope: global, profile: full}]\ntests: [{name: t, expected: never, tool: exec}]",
        "policies: []\ntests: [{name: t, expected: never, tool: gone_tool}]",
    ],
    ids=["a fault in a row", "a row twice", "a test that its rows break", "a test of no tool"],
)
def test_failed_import_changes_nothing(text):
    PolicyTest.objects.create(name="kept", expected="allowed", agent="main", tool="read")
    with pytest.raises(InvalidRequest):
        import_file(parse_file(text))
    assert (stored_rows(), numbers()) == (set(DEFAULT_RULES), [1])
    assert [test.name for test in PolicyTest.objects.all()] == ["kept"]


def test_import_based_on_old_version_is_rejected():
    save_policy(scope="global", deny=["exec"])
    with pytest.raises(Conflict):
        import_file(parse_file("policies: []"), expected_version=1)
    assert current_rules().row("global").deny == ("exec",)


def test_import_does_not_delete_test_added_since():
    """A file that was compared before the test was added doesn't contain it."""
    save_test(name="main never fetches", expected="never", agent="main", tool="web_fetch")
    with pytest.raises(Conflict):
        import_file(parse_file("policies: []"), expected_version=1)
    assert PolicyTest.objects.get().name == "main never fetches"
    assert import_file(parse_file("policies: []\ntests: [{name: t, expected: never, tool: exec}]"), expected_version=2) == 3
    assert [test["name"] for test in PolicyVersion.objects.first().tests] == ["t"]


def test_imported_tests_replace_existing_tests():
    """The existing tests are removed together with the rows they were written for."""
    PolicyTest.objects.create(name="old", expected="never", tool="exec", agent="main", subagent=True)
    file = parse_file("policies: [{scope: global, profile: full}]\ntests: [{name: new, expected: allowed, tool: exec}]")
    assert import_file(file) == 2
    assert [test.as_expectation() for test in PolicyTest.objects.all()] == list(file.tests)


def test_concurrent_imports_are_serialized():
    file = parse_file("policies: [{scope: global, profile: full}]\ntests: [{name: t, expected: allowed, tool: exec}]")
    ready, outcomes = threading.Barrier(4), []

    def run():
        try:
            connection.ensure_connection()
            ready.wait()
            outcomes.append(import_file(file))
        except Exception as error:
            outcomes.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes, key=str) == [2, 3, 4, 5]
    assert PolicyTest.objects.count() == 1
