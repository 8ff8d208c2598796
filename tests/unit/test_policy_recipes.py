"""docs/policy.md: its recipes do what they say, and its tables match the code."""

import re
from pathlib import Path

import pytest

from sessions_app.origin import Sender
from tests.unit.policy_cases import TOOLS, validated_row
from tools_app.policy.catalog import (
    ALIASES,
    DEFAULT_PROFILE,
    GROUPS,
    NATIVE_TOOLS,
    OPENCLAW_GROUP,
    OWNER_ONLY,
    PLUGINS_GROUP,
    PROFILES,
    SANDBOX_ALLOW,
    SUBAGENT_DENY,
)
from tools_app.policy.evaluation import evaluate
from tools_app.policy.expectations import find_broken
from tools_app.policy.layers import LAYERS
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules
from tools_app.policy_store.files import parse_file

PAGE = (Path(__file__).resolve().parents[2] / "docs/policy.md").read_text()
RECIPES = {
    title: parse_file(block)
    for title, block in re.findall(r"^## \d\. (.+?)\n.*?^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
}
ANYBODY, SUBAGENT, SANDBOX, MODEL, ENDS, PEOPLE = RECIPES

FILES = NATIVE_TOOLS["fs"]


def telegram(group: str, **sender: str):
    return {"channel": "telegram", "group": group, "sender": Sender(**sender)}


def test_docs_have_six_recipes():
    assert len(RECIPES) == 6


@pytest.mark.parametrize("title", RECIPES)
def test_recipe_rows_can_be_saved(title):
    assert [validated_row(**row.to_json()) for row in RECIPES[title].rows] == list(RECIPES[title].rows)


@pytest.mark.parametrize("title", RECIPES)
def test_recipe_tests_pass(title):
    file = RECIPES[title]
    assert find_broken(file.tests, PolicyRules(1, file.rows), TOOLS, ()) == []


@pytest.mark.parametrize(("title", "place"), [(title, row.scope_values) for title, file in RECIPES.items() for row in file.rows])
def test_recipe_tests_fail_without_any_one_row(title, place):
    file = RECIPES[title]
    assert find_broken(file.tests, PolicyRules(1, file.rows).without(place), TOOLS, ())


@pytest.mark.parametrize(
    ("title", "ask", "kept", "refused"),
    [
        (ANYBODY, {"channel": "discord", "group": "8841"}, ["message", "read"], ["exec", "process", "gateway", "cron", "nodes"]),
        (ANYBODY, {"channel": "discord"}, ["exec", "gateway"], []),
        (ANYBODY, {"channel": "telegram", "group": "8841"}, ["exec"], []),
        (SUBAGENT, {"is_subagent": True}, [*FILES, "exec"], [*SUBAGENT_DENY, "web_fetch", "message"]),
        (SUBAGENT, {}, ["sessions_send", "memory_search", "cron", "web_fetch"], []),
        (SANDBOX, {"sandboxed": True}, [*FILES, "image"], ["exec", "process", "sessions_send", "session_status"]),
        (SANDBOX, {}, ["exec", "sessions_send"], []),
        (MODEL, {"provider": "google", "model": "gemini-3-flash"}, ["read"], ["browser", "canvas"]),
        (MODEL, {"provider": "google", "model": "gemini-3-pro"}, ["browser", "canvas"], []),
        (MODEL, {"provider": "anthropic", "model": "claude-opus-4"}, ["browser", "canvas"], []),
        (ENDS, telegram("-100111"), ["exec", "read", "message"], ["gateway", "web_fetch"]),
        (ENDS, telegram("-100222"), ["message"], ["exec", "read", "web_fetch"]),
        (ENDS, telegram("-100999"), ["message", "web_fetch"], ["exec", "read", "gateway", "cron"]),
        (ENDS, {"channel": "telegram"}, ["exec", "read", "gateway"], []),
        (PEOPLE, telegram("-100333", username="@Anna"), ["exec", "gateway", "message"], []),
        (PEOPLE, telegram("-100333", id="77", e164="+4915112345"), ["exec", "gateway", "message"], []),
        (PEOPLE, telegram("-100333", username="bob"), ["message", "web_search"], ["exec", "read", "gateway"]),
    ],
)
def test_recipe_allows_and_denies_documented_tools(title, ask, kept, refused):
    question = PolicyQuery(**{"agent": "main", "is_owner": True, "tools": TOOLS} | ask)
    passed = set(evaluate(question, PolicyRules(1, RECIPES[title].rows)).kept)
    assert set(kept) <= passed
    assert not set(refused) & passed


# Tables and lists in the document.


def table(heading: str) -> dict[str, str]:
    """First and second column of the table under a heading."""
    part = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return {row[0]: row[1] for row in rows[2:]}


def names(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def after(words: str) -> list[str]:
    """The names between this text and the next period or colon."""
    return names(re.split(r"[.:](?:\s|$)", " ".join(PAGE.split()).split(words, 1)[1], maxsplit=1)[0])


def test_documented_layers_match_code():
    found = [name for step in table("How decisions are made") for name in names(step)]
    assert found == ["owner", *(layer.name for layer in LAYERS)]


def test_documented_groups_match_code():
    told = {names(entry)[0]: names(meaning) for entry, meaning in table("Entries").items() if "group:" in entry}
    assert told.keys() == {f"group:{group}" for group in GROUPS}
    for group in GROUPS - {OPENCLAW_GROUP, PLUGINS_GROUP}:
        assert told[f"group:{group}"] == list(NATIVE_TOOLS[group])


def test_documented_profiles_match_code():
    told = {names(profile)[0]: names(meaning) for profile, meaning in table("Tool profiles and also allow").items()}
    assert told == {profile: list(allow) for profile, allow in PROFILES.items()}


def test_documented_fixed_lists_match_code():
    assert after("**Subagents** never get") == list(SUBAGENT_DENY)
    assert after("else the one for all agents, else this list:") == list(SANDBOX_ALLOW)
    assert after("**Owner-only tools**") == list(OWNER_ONLY)
    assert after("The default profile is") == [DEFAULT_PROFILE]
    assert all(f"`{alias}` means `{name}`" in PAGE for alias, name in ALIASES.items())
