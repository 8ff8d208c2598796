"""Changing plugins and MCP servers can't break a policy test, whichever way it is done."""

import pytest
from django.test import Client

from clawsite.infra.errors import InvalidRequest
from tests.harness.mcp import record_server_tools
from tests.harness.plugins import ECHO_PLUGIN, record_plugins, unload_plugins
from tools_app.models import McpServer, Plugin, PolicyTest
from tools_app.policy_store import policy_tests, source_changes
from tools_app.policy_store.policies import current_rules, find_broken_tests, save_policy
from tools_app.sources import tools as source_tools

pytestmark = pytest.mark.usefixtures("database", "fresh_policy")

SERVERS, PLUGINS = "/admin/tools_app/mcpserver/", "/admin/tools_app/plugin/"
MAIN_READS = "Policy test “main reads” would fail: read for main is denied by layer agent: not in the allowlist."


def expect(name: str, expected: str, tool: str, agent: str = "main") -> PolicyTest:
    return PolicyTest.objects.create(name=name, expected=expected, agent=agent, tool=tool)


def main_has_only(source: str) -> None:
    """An allowlist that is ignored while its only entry is enabled, and removes every other tool while it is disabled."""
    save_policy(scope="agent", subject="main", profile="coding", also_allow=[source], allow=[source])
    expect("main reads", "allowed", "read")


def states() -> dict[str, str]:
    return {each.test.name: each.state for each in policy_tests.check_all_tests()}


# Rejected for everyone.


def test_disabling_plugin_is_rejected_if_it_breaks_test(echo):
    main_has_only("echo")
    with pytest.raises(InvalidRequest) as refused:
        source_changes.switch_plugins([echo], on=False)
    assert refused.value.message == MAIN_READS
    assert Plugin.objects.get().enabled
    assert "echo_word" in source_tools.load_tools().tools


def test_enabling_plugin_is_rejected_if_it_breaks_test(add_plugin):
    echo = add_plugin("echo", ECHO_PLUGIN.format(tool="echo_word"), enabled=False)
    save_policy(scope="agent", subject="support", profile="full", allow=["echo"])
    expect("support never gets exec", "never", "exec", "support")
    with pytest.raises(InvalidRequest, match="support never gets exec"):
        source_changes.switch_plugins([echo], on=True)
    assert not Plugin.objects.get().enabled
    assert "echo_word" not in source_tools.load_tools().tools


def off(row: McpServer) -> McpServer:
    row.enabled = False
    return row


@pytest.mark.parametrize(
    "change",
    [
        lambda row: source_changes.switch_servers([row], on=False),
        lambda row: source_changes.delete_servers([row]),
        lambda row: source_changes.save_server(off(row)),
    ],
    ids=["switch", "delete", "save"],
)
def test_server_change_that_breaks_test_is_rejected(weather, change):
    main_has_only("weather")
    with pytest.raises(InvalidRequest) as refused:
        change(weather)
    assert refused.value.message == MAIN_READS
    assert McpServer.objects.get().enabled
    assert "weather__forecast" in source_tools.load_tools().tools


def test_server_can_be_deleted_after_its_tests(weather):
    save_policy(scope="agent", subject="main", profile="coding", also_allow=["weather"])
    test = expect("main may ask", "allowed", "weather__forecast")
    with pytest.raises(InvalidRequest, match="main may ask.* is not a known tool"):
        source_changes.delete_servers([weather])
    test.delete()
    source_changes.delete_servers([weather])
    assert not McpServer.objects.exists()


def test_dry_run_is_not_cached(weather):
    """The next change gets the same revision and must not be confused with the dry run."""
    record_server_tools(weather, "get_a", "get_b")
    tried, made = McpServer.objects.get(), McpServer.objects.get()
    tried.include, made.include = ["get_a"], ["get_b"]
    source_changes.dry_run(source_changes.save_server, tried)
    assert McpServer.objects.get().include == []
    source_changes.save_server(made)
    assert tried.revision == made.revision
    assert {name for name in source_tools.load_tools().tools if "__" in name} == {"weather__get_b"}


NO_DROP = "Policy test “nobody drops” would fail: {tool} for any-other-agent is allowed"


@pytest.mark.parametrize(
    ("entry", "tool"),
    [
        ("weather__drop", "weather__drop"),
        ("weather__dr*", "weather__dr*"),
        ("weather", "weather__*"),
        ("group:plugins", "weather__*"),
    ],
)
def test_server_that_may_provide_forbidden_tool_is_not_added(echo, entry, tool):
    save_policy(scope="global", profile="full", deny=["echo"])
    expect("nobody drops", "never", entry, agent="")
    with pytest.raises(InvalidRequest) as refused:
        source_changes.save_server(McpServer(name="weather", command="true", enabled=True))
    assert refused.value.message.startswith(NO_DROP.format(tool=tool))
    later = source_changes.save_server(McpServer(name="weather", command="true"))
    with pytest.raises(InvalidRequest, match="nobody drops"):
        source_changes.switch_servers([later], on=True)
    save_policy(scope="global", profile="full", deny=["echo", "weather"])
    source_changes.switch_servers([later], on=True)
    assert states() == {"nobody drops": "holds"}


def test_policy_that_would_allow_future_forbidden_tool_is_not_published(weather):
    save_policy(scope="agent", subject="main", profile="coding")
    expect("main never drops", "never", "weather__drop")
    assert states() == {"main never drops": "holds"}
    with pytest.raises(InvalidRequest, match="main never drops"):
        save_policy(scope="agent", subject="main", profile="coding", also_allow=["weather"])
    weather.exclude = ["drop"]
    source_changes.save_server(weather)
    save_policy(scope="agent", subject="main", profile="coding", also_allow=["weather"])
    record_server_tools(weather, "forecast", "drop")
    assert states() == {"main never drops": "holds"}


# Still possible.


def test_already_failing_test_does_not_block_change(weather):
    save_policy(scope="agent", subject="main", profile="coding")
    expect("broken by a worker's news", "allowed", "gone_tool")
    source_changes.switch_servers([weather], on=False)
    assert not McpServer.objects.get().enabled
    assert states() == {"broken by a worker's news": "broken"}


def test_change_that_breaks_nothing_is_saved(echo):
    expect("main reads", "allowed", "read")
    source_changes.switch_plugins([echo], on=False)
    assert not Plugin.objects.get().enabled


# Policy tests of unavailable tools.


def test_disabled_plugin_does_not_fail_tests_or_block_publishing(echo):
    save_policy(scope="agent", subject="main", profile="coding", also_allow=["echo"])
    expect("main echoes", "allowed", "echo_word")
    expect("support never echoes", "never", "echo_word", "support")
    source_changes.switch_plugins([echo], on=False)
    assert states() == {"main echoes": "idle", "support never echoes": "holds"}
    assert find_broken_tests(current_rules()) == []
    save_policy(scope="global", deny=["cron"])


def test_test_runs_again_when_plugin_is_enabled(echo):
    save_policy(scope="agent", subject="main", profile="coding", also_allow=["echo"])
    expect("main echoes", "allowed", "echo_word")
    source_changes.switch_plugins([echo], on=False)
    save_policy(scope="agent", subject="main", profile="coding")
    with pytest.raises(InvalidRequest, match="main echoes"):
        source_changes.switch_plugins([echo], on=True)


@pytest.mark.parametrize("entry", ["weather__forecast", "weather__*", "weather", "group:plugins", "weat*"])
def test_server_can_change_while_its_tools_are_unknown(weather, entry):
    save_policy(scope="agent", subject="main", profile="coding", also_allow=["weather"])
    expect("main may ask", "allowed", entry)
    weather.command = "false"
    source_changes.save_server(weather)
    assert states() == {"main may ask": "idle"}
    save_policy(scope="global", deny=["cron"])
    record_server_tools(weather, "forecast")
    assert states() == {"main may ask": "holds"}


def test_broken_plugin_does_not_block_publishing(echo, add_plugin):
    save_policy(scope="agent", subject="main", profile="coding", also_allow=["echo"])
    expect("main echoes", "allowed", "echo_word")
    (add_plugin.folder / "echo_plugin.py").write_text("raise RuntimeError('broken')")
    unload_plugins(add_plugin.folder)
    record_plugins()
    assert "broken" in Plugin.objects.get().error
    assert states() == {"main echoes": "idle"}
    save_policy(scope="agent", subject="main", profile="coding", also_allow=["echo_word"])


def test_test_of_unknown_tool_fails():
    PolicyTest.objects.create(name="typo", expected="allowed", tool="wether__forecast")
    assert states() == {"typo": "broken"}


# In the admin.


@pytest.fixture
def operator(make_user, settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    someone = make_user("Operator")
    someone.is_staff = True
    someone.save()
    client = Client()
    client.force_login(someone)
    return client


def form_of(row: McpServer, **changes: str) -> dict[str, str]:
    return {"transport": "stdio", "command": row.command, "timeout_seconds": "30", "enabled": "on"} | changes


def test_server_form_names_tests_it_would_break(operator, weather):
    main_has_only("weather")
    said = operator.post(f"{SERVERS}{weather.pk}/change/", form_of(weather, enabled=""), secure=True)
    assert MAIN_READS in said.content.decode()
    assert McpServer.objects.get().enabled
    assert operator.post(f"{SERVERS}{weather.pk}/change/", form_of(weather, exclude="x"), secure=True).status_code == 302
    assert McpServer.objects.get().exclude == ["x"]


def test_plugin_form_names_tests_it_would_break(operator, echo):
    main_has_only("echo")
    said = operator.post(f"{PLUGINS}{echo.pk}/change/", {}, secure=True)
    assert MAIN_READS in said.content.decode()
    assert Plugin.objects.get().enabled
    PolicyTest.objects.all().delete()
    assert operator.post(f"{PLUGINS}{echo.pk}/change/", {}, secure=True).status_code == 302
    assert not Plugin.objects.get().enabled


def test_form_of_missing_plugin_redirects_to_list(operator):
    assert operator.post(f"{PLUGINS}abc/change/", {"enabled": "on"}, secure=True).status_code == 302


@pytest.mark.parametrize(("address", "name"), [(SERVERS, "weather"), (PLUGINS, "echo")])
def test_action_names_tests_it_would_break(operator, weather, echo, address, name):
    main_has_only(name)
    row = {"weather": weather, "echo": echo}[name]
    chosen = {"action": "disable", "_selected_action": [str(row.pk)], "confirmed": "yes"}
    assert MAIN_READS in operator.post(address, chosen, secure=True, follow=True).content.decode()
    row.refresh_from_db()
    assert row.enabled


def test_deletion_names_tests_it_would_break(operator, weather):
    main_has_only("weather")
    said = operator.post(f"{SERVERS}{weather.pk}/delete/", {"post": "yes"}, secure=True, follow=True).content.decode()
    assert MAIN_READS in said
    assert McpServer.objects.exists()


def test_tool_of_disabled_source_is_listed_with_reason(operator, echo):
    save_policy(scope="agent", subject="main", profile="coding", also_allow=["echo"])
    source_changes.switch_plugins([echo], on=False)
    page = operator.get("/policies/", {"agent": "main", "tool": "echo_word"}, secure=True).content.decode()
    assert "echo_word" in page
    assert "Plugin `echo` is disabled" in page
    assert "No matching tools" not in page


def test_test_list_shows_idle_tests(operator, echo):
    save_policy(scope="agent", subject="main", profile="coding", also_allow=["echo"])
    expect("main echoes", "allowed", "echo_word")
    source_changes.switch_plugins([echo], on=False)
    assert "tool not available" in operator.get("/admin/tools_app/policytest/", secure=True).content.decode()
    expect("main reads", "allowed", "read")
    page = operator.get("/policies/tests/", secure=True).content.decode()
    assert "disabled, unavailable or not yet seen, so there is nothing to test now" in page
    assert "All 1 pass, 1 idle." in page
