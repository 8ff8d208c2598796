"""Inputs for authorizing a run's calls: which of its tools are still offered, and the current plugin names for policy entries."""

import pytest

from clawsite.infra.reasons import Reason
from tests.harness.mcp import record_server_tools
from tools_app.models import McpServer
from tools_app.policy.query import ToolFacts
from tools_app.policy_store import source_changes
from tools_app.sources import offered
from tools_app.sources import tools as source_tools
from tools_app.sources.offered import CurrentOffer

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database", "fresh_policy")]


def tools_of(source: str) -> list[ToolFacts]:
    return [each.facts for each in source_tools.load_tools().tools.values() if each.facts.plugin == source]


def test_offered_tools_are_not_reported_unavailable(weather, echo, django_assert_num_queries):
    mine = [*tools_of("weather"), *tools_of("echo"), ToolFacts("read", ("fs",))]
    with django_assert_num_queries(1):
        now = offered.read_current_offer(mine)
    assert now == CurrentOffer(source_tools.load_tools().plugin_names, {})
    assert {"weather", "weather__forecast", "echo", "echo_word"} <= set(now.plugins)


def filtered(row: McpServer) -> None:
    row.exclude = ["fore*"]
    source_changes.save_server(row)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda row: source_changes.switch_servers([row], on=False), "source.server_disabled"),
        (filtered, "source.server_dropped_it"),
        (lambda row: source_changes.delete_servers([row]), "source.removed"),
        (lambda row: record_server_tools(row, "hail"), "source.server_dropped_it"),
    ],
    ids=["off", "filtered", "deleted", "not told any more"],
)
def test_unavailable_server_tool_has_reason(weather, change, why):
    mine = tools_of("weather")
    change(weather)
    assert offered.read_current_offer(mine).unavailable == {"weather__forecast": Reason(why, name="weather")}


def test_unavailable_plugin_tool_has_reason(echo):
    mine = tools_of("echo")
    source_changes.switch_plugins([echo], on=False)
    assert offered.read_current_offer(mine).unavailable == {"echo_word": Reason("source.plugin_disabled", name="echo")}


def test_running_call_is_checked_against_current_plugins(weather):
    mine = tools_of("weather")
    source_changes.switch_servers([weather], on=False)
    assert offered.read_current_offer(mine).plugins == source_tools.load_tools().plugin_names
    assert "weather" not in offered.read_current_offer(mine).plugins


def test_current_offer_is_read_without_loading_tool_lists(weather, django_assert_num_queries):
    """Because the read is on the writer thread, even right after a change."""
    mine = tools_of("weather")
    changed = record_server_tools(weather, "forecast", "hail", "Rain.Now")
    changed.exclude = ["hail"]
    source_changes.save_server(changed)
    with django_assert_num_queries(4) as asked:
        now = offered.read_current_offer(mine)
    assert now.unavailable == {}
    assert {name for name in now.plugins if "__" in name} == {"weather__forecast", "weather__rain_now"}
    assert not [each["sql"] for each in asked.captured_queries if '"tools_app_mcpserver"."tools"' in each["sql"]]
