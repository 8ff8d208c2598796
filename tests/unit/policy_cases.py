"""Test cases of the tool policy as values: rows, a query, and which tools must be allowed or denied by which layer."""

from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest

from sessions_app.origin import Sender
from tools_app.policy.catalog import NATIVE_NAMES
from tools_app.policy.evaluation import evaluate
from tools_app.policy.query import PolicyQuery, ToolFacts
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.policy_store.checks import validate_row
from tools_app.sources.registry import ToolRegistry

PLUGIN_TOOLS = ("msteams_post", "msteams_read", "weather_today")
TOOLS = (
    *ToolRegistry.build([]).nameable,
    *(ToolFacts(name, ("plugins",), plugin=name.partition("_")[0]) for name in PLUGIN_TOOLS),
)
PLUGINS = ("msteams", "weather", *PLUGIN_TOOLS)
ALL = NATIVE_NAMES | set(PLUGIN_TOOLS)
FULL = RuleRow("global", profile="full")


@dataclass(frozen=True)
class Case:
    sentence: str
    rows: tuple[RuleRow, ...]
    kept: Any = ()  # at least these are allowed
    refused: Any = ()  # these are denied
    exactly: Any = None  # exactly these are allowed
    by: str = ""  # the first layer that denies each of `refused`
    ask: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.sentence


def evaluate_rows(rows, **ask):
    question = {"agent": "main", "is_owner": True, "tools": TOOLS, "plugins": PLUGINS} | ask
    return evaluate(PolicyQuery(**question), PolicyRules(1, tuple(rows)))


def check_case(case: Case) -> None:
    verdict = evaluate_rows(case.rows, **case.ask)
    passed = set(verdict.kept)
    assert set(case.kept) <= passed
    assert not set(case.refused) & passed
    assert case.exactly is None or passed == set(case.exactly)
    if case.by:
        assert {verdict.refused_by(name).layer for name in case.refused} == {case.by}


def global_row(**lists) -> RuleRow:
    """Return global lists with an unrestricted profile."""
    return RuleRow("global", profile="full", **lists)


def agent_row(**lists) -> RuleRow:
    return RuleRow("agent", "main", **lists)


def group_row(group: str, sender: str = "", **lists) -> RuleRow:
    return RuleRow("group", channel="telegram", group=group, sender=sender, **lists)


def telegram_query(group: str, **sender: str) -> dict[str, Any]:
    return {"channel": "telegram", "group": group, "sender": Sender(**sender)}


def parametrize_cases(*listed: Case):
    return pytest.mark.parametrize("case", listed, ids=str)


ANYWHERE = {"provider": "openai", "model": "gpt-5", **telegram_query("-1")}
# Repeated here independently of tools_app.policy.catalog, as documented in the manual.
GROUPS = {
    "group:fs": {"read", "write", "edit", "apply_patch", "glob", "grep"},  # the last two: decided
    "group:runtime": {"exec", "process"},
    "group:memory": {"memory_search", "memory_get"},
    "group:web": {"web_search", "web_fetch"},
    # the last: decided
    "group:sessions": {"sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status", "subagents"},
    "group:messaging": {"message"},
    "group:ui": {"browser", "canvas"},
    "group:automation": {"cron", "gateway"},
    "group:nodes": {"nodes"},
    "group:openclaw": NATIVE_NAMES,  # "all native tools"
    "group:plugins": set(PLUGIN_TOOLS),
}


def validated_row(**fields) -> RuleRow:
    """Validate a row as saving does, with the plugins of these cases instead of those in the database."""
    with patch("tools_app.policy_store.checks.load_tools", lambda: ToolRegistry({}, frozenset(PLUGINS))):
        return validate_row(**fields)
