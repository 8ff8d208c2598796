"""MCP servers as rows: validation, what known_tools() makes of them, and who can change them in the admin."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from clawsite.infra.errors import InvalidRequest
from tools_app.core.definition import BadArguments
from tools_app.models import McpServer, ToolPolicy
from tools_app.policy.query import ToolFacts
from tools_app.policy_store import policies, source_changes
from tools_app.sources import tools as source_tools
from tools_app.sources.mcp import servers
from tools_app.sources.mcp.listing import ToolListing
from tools_app.sources.mcp.servers import SourcesChanged

pytestmark = pytest.mark.usefixtures("database")

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ADDRESS = "/admin/tools_app/mcpserver/"


def seen(*names: str) -> list[dict]:
    return [{"name": name, "title": "", "description": f"About {name}", "inputSchema": SCHEMA, "annotations": {}} for name in names]


def server(name: str = "weather", *tools: str, **values) -> McpServer:
    """A server as stored after a worker has connected to it."""
    row = source_changes.save_server(McpServer(name=name, **({"command": "true", "enabled": True} | values)))
    servers.record_status(name, row.revision, "ready", listing=ToolListing(seen(*tools or ("forecast",)), []))
    row.refresh_from_db()
    return row


def test_server_tools_are_prefixed_with_server_name():
    server("my-weather", "forecast", "Get-Map")
    known = source_tools.load_tools()
    assert known.tools["my_weather__forecast"].facts == ToolFacts("my_weather__forecast", ("plugins",), "my-weather")
    assert {"my_weather__forecast", "my_weather__get_map"} <= set(known.tools)
    assert source_tools.load_tools().plugins == {"my-weather"}


def test_server_safety_annotations_are_not_trusted():
    row = server()
    row.tools[0]["annotations"] = {"readOnlyHint": True, "idempotentHint": True}
    row.save()
    factory = source_tools.load_tools().tools["weather__forecast"].factory
    assert (factory.read_only, factory.idempotent) == (False, False)


def test_server_tool_uses_its_schema_and_timeout():
    server(timeout_seconds=7)
    factory = source_tools.load_tools().tools["weather__forecast"].factory
    assert factory.timeout_s == 7
    with pytest.raises(BadArguments, match="Missing required parameter: city"):
        factory.check({})


def test_include_and_exclude_patterns_filter_server_tools():
    server("weather", "get_a", "get_b", "set_a", include=["get_*"], exclude=["*_b"])
    assert {name for name in source_tools.load_tools().tools if "__" in name} == {"weather__get_a"}


def test_same_tool_on_two_servers_does_not_collide():
    server("north"), server("south")
    assert {"north__forecast", "south__forecast"} <= set(source_tools.load_tools().tools)


def test_disabled_server_offers_no_tools_but_stays_known():
    row = server()
    source_changes.switch_servers([row], on=False)
    known = source_tools.load_tools()
    assert "weather__forecast" not in known.tools
    assert known.knows("weather")
    assert known.knows("weather__forecast")
    assert not known.knows("weather__hail")
    assert source_tools.load_tools().plugins == frozenset()


def test_tool_cache_is_refreshed_after_server_change():
    row = server()
    before = source_tools.load_tools().tools
    assert source_tools.load_tools().tools is before
    servers.record_status("weather", row.revision, "ready", listing=ToolListing(seen("forecast"), []))
    assert source_tools.load_tools().tools is before
    servers.record_status("weather", row.revision, "ready", listing=ToolListing(seen("forecast", "hail"), []))
    assert "weather__hail" in source_tools.load_tools().tools


@pytest.mark.parametrize(("tools", "notes", "writes"), [(["a"], [], 0), (["a", "b"], [], 1), (["a"], ["twin: left out"], 1)])
def test_tool_list_is_only_written_if_changed(tools, notes, writes):
    row = server("weather", "a")
    with CaptureQueriesContext(connection) as looked:
        servers.record_status("weather", row.revision, "ready", listing=ToolListing(seen(*tools), notes))
    assert sum('"tools" =' in query["sql"] for query in looked) == writes
    after = McpServer.objects.get()
    assert (after.tools, after.notes, after.checked_at > row.checked_at) == (seen(*tools), notes, True)


def test_listing_enabled_servers_does_not_load_tool_lists():
    server("weather", "forecast", args=["--fast"], env={"REGION": "eu"})
    server("off", enabled=False)
    with CaptureQueriesContext(connection) as asked:
        (found,) = servers.list_enabled()
    assert (found.name, found.args, found.env) == ("weather", ["--fast"], {"REGION": "eu"})
    (query,) = asked
    assert '"tools"' not in query["sql"]


def test_policy_can_name_server_and_its_tools():
    server()
    try:
        saved = policies.save_policy(
            scope="agent", subject="main", profile="coding", also_allow=["weather", "weather__*", "weather__forecast"]
        )
        assert saved.also_allow == ["weather", "weather__*", "weather__forecast"]
        with pytest.raises(InvalidRequest, match="wether"):
            policies.save_policy(scope="agent", subject="main", profile="coding", also_allow=["wether"])
    finally:
        policies.save_policy(scope="agent", subject="main", profile="coding")
        ToolPolicy.objects.exclude(subject__in=["", "main"]).delete()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"command": ""}, "Enter the program"),
        ({"transport": "http"}, "Enter an address"),
        ({"transport": "http", "url": "ftp://x"}, "Enter an address"),
        ({"name": "read"}, "the name of a tool or plugin"),
        ({"name": "bash"}, "the name of a tool or plugin"),
        ({"name": "Weather"}, "is not a valid server name"),
        ({"name": "weather__x"}, "is not a valid server name"),
        ({"env": {"API_KEY": "abc"}}, "API_KEY contains a secret"),
        ({"env": {"REGION": "sk-abcdefghijklm"}}, "REGION contains a secret"),
        ({"headers": {"Authorization": "Bearer abcdefgh"}}, "Authorization contains a secret"),
        ({"args": ["--token", "abc"]}, "--token contains a secret"),
        ({"transport": "http", "url": "http://me:password@host/mcp"}, "contains a secret"),
        ({"env": {"X": "${CLAWSITE_SECRET_KEY}"}}, "CLAWSITE_SECRET_KEY is reserved for Clawsite"),
        ({"headers": {"X": "${DATABASE_URL}"}}, "DATABASE_URL is reserved for Clawsite"),
        ({"env": {"CLAWSITE_HOME": "/tmp"}}, "CLAWSITE_HOME is reserved for Clawsite"),
    ],
)
def test_invalid_or_secret_leaking_server_is_rejected(values, words):
    with pytest.raises(InvalidRequest, match=words.replace("$", r"\$")):
        source_changes.save_server(McpServer(**({"name": "weather", "command": "true"} | values)))
    assert not McpServer.objects.exists()


@pytest.mark.parametrize(
    "values",
    [
        {"env": {"API_KEY": "${WEATHER_KEY}", "MAX_TOKENS": "100000", "REGION": "eu"}},
        {"headers": {"Authorization": "Bearer ${TOKEN}", "X-Region": "eu"}},
        {"args": ["--token", "${TOKEN}", "--local-timezone", "Europe/Berlin"]},
        {"transport": "http", "url": "http://127.0.0.1:8000/mcp"},
    ],
)
def test_references_and_plain_values_are_saved(values):
    source_changes.save_server(McpServer(**({"name": "weather", "command": "true"} | values)))


def test_server_names_differing_only_in_dash_are_rejected():
    server("my-weather")
    with pytest.raises(InvalidRequest, match="would have the same names as those of “my-weather”"):
        source_changes.save_server(McpServer(name="my_weather", command="true"))


def test_changing_command_clears_stored_tools():
    row = server()
    row.command = "false"
    source_changes.save_server(row)
    assert McpServer.objects.get().tools == []


def test_status_of_old_revision_or_disabled_server_is_ignored():
    row = server()
    assert servers.record_status("weather", row.revision - 1, "failing", error="old") is False
    source_changes.switch_servers([row], on=False)
    assert servers.record_status("weather", row.revision + 1, "ready") is False
    assert McpServer.objects.get().status == "off"


def test_unstorable_characters_are_removed_from_error():
    row = server()
    servers.record_status("weather", row.revision, "failing", error="a\0b\ud800")
    assert McpServer.objects.get().error in ("ab?", "ab")


# In the admin


@pytest.fixture
def plain_static_files(settings):
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    yield
    LogEntry.objects.all().delete()


@pytest.fixture
def client_of(make_user, plain_static_files):
    def make(*groups: str) -> Client:
        someone = make_user(*groups)
        someone.is_staff = True
        someone.save()
        client = Client()
        client.force_login(someone)
        return client

    return make


FORM = {
    "name": "weather",
    "enabled": "on",
    "transport": "stdio",
    "command": "uvx",
    "args": "mcp-server-time\n--local-timezone\nUTC",
    "env": "API_KEY=${WEATHER_KEY}\nREGION=eu=west",
    "url": "",
    "headers": "Authorization: Bearer ${TOKEN}",
    "include": "get_*",
    "exclude": "",
    "timeout_seconds": "30",
}


def test_operator_can_add_server(client_of):
    said = client_of("Operator").post(f"{ADDRESS}add/", FORM, secure=True, follow=True).content.decode()
    row = McpServer.objects.get()
    assert row.args == ["mcp-server-time", "--local-timezone", "UTC"]
    assert row.env == {"API_KEY": "${WEATHER_KEY}", "REGION": "eu=west"}
    assert row.headers == {"Authorization": "Bearer ${TOKEN}"}
    assert (row.include, row.enabled, row.timeout_seconds) == (["get_*"], True, 30)
    assert "weather" in said


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"command": ""}, "Enter the program"),
        ({"env": "API_KEY=sk-1234567890"}, "API_KEY contains a secret"),
        ({"env": "nonsense"}, "use the form NAME=VALUE"),
        ({"headers": "bad header"}, "use the form NAME:VALUE"),
        ({"name": "exec"}, "the name of a tool or plugin"),
        ({"timeout_seconds": "0"}, "greater than or equal to 0.1"),
    ],
)
def test_form_shows_errors(client_of, change, words):
    said = client_of("Operator").post(f"{ADDRESS}add/", FORM | change, secure=True).content.decode()
    assert words in said
    assert not McpServer.objects.exists()


def test_editing_server_keeps_name_and_tools(client_of):
    row = server()
    changed = FORM | {"name": "other", "command": "true", "args": "", "env": "REGION=us"}
    client_of("Operator").post(f"{ADDRESS}{row.pk}/change/", changed, secure=True)
    after = McpServer.objects.get()
    assert (after.name, after.env, after.revision) == ("weather", {"REGION": "us"}, row.revision + 1)
    assert after.tools == row.tools


def test_concurrent_edit_is_reported_and_input_is_kept(client_of):
    row, client = server(), client_of("Operator")
    address = f"{ADDRESS}{row.pk}/change/"
    page = client.get(address, secure=True).content.decode()
    seen = re.search(r'name="seen_revision" value="(\d+)"', page)[1]
    source_changes.save_server(McpServer(pk=row.pk, name="weather", command="true", enabled=True, env={"REGION": "eu"}))
    mine = FORM | {"command": "true", "args": "", "env": "REGION=us", "seen_revision": seen}
    told = client.post(address, mine, secure=True)
    assert told.status_code == 200
    assert "weather was changed while you were editing" in told.content.decode()
    assert "REGION=us" in told.content.decode()
    assert McpServer.objects.get().env == {"REGION": "eu"}
    renewed = re.search(r'name="seen_revision" value="(\d+)"', told.content.decode())[1]
    assert client.post(address, mine | {"seen_revision": renewed}, secure=True).status_code == 302
    assert McpServer.objects.get().env == {"REGION": "us"}


def test_server_page_shows_escaped_tools_and_notes(client_of):
    row = server("weather", "forecast")
    row.tools[0]["description"] = "<script>alert(1)</script>"
    row.notes, row.error = ["twin: <b>left out</b>"], "<i>broken</i>"
    row.save()
    said = client_of("Operator").get(f"{ADDRESS}{row.pk}/change/", secure=True).content.decode()
    assert "weather__forecast" in said
    assert "&lt;script&gt;" in said
    assert "twin: &lt;b&gt;" in said
    assert "<script>alert" not in said
    assert "<i>broken" not in said


def act(client: Client, action: str, row: McpServer, *, sure: bool = True) -> str:
    chosen = {"action": action, "_selected_action": [str(row.pk)]} | ({"confirmed": "yes"} if sure else {})
    return client.post(ADDRESS, chosen, secure=True, follow=True).content.decode()


def test_admin_actions_require_confirmation(client_of):
    row, client = server(command="my-server", args=["--fast"]), client_of("Operator")
    assert "disconnect and reconnect" in act(client, "restart", row, sure=False)
    assert McpServer.objects.get().revision == row.revision
    act(client, "restart", row)
    assert (McpServer.objects.get().revision, McpServer.objects.get().status) == (row.revision + 1, "starting")
    act(client, "disable", row)
    assert (McpServer.objects.get().enabled, McpServer.objects.get().status) == (False, "off")
    assert "my-server --fast" in act(client, "enable", row, sure=False)
    act(client, "enable", row)
    assert McpServer.objects.get().enabled
    assert LogEntry.objects.count() == 3


@pytest.mark.parametrize("group", ["Auditor", "User", "Approver"])
def test_only_operators_can_change_servers(client_of, group):
    row, client = server(), client_of(group)
    for action in ("disable", "restart"):
        act(client, action, row)
    client.post(f"{ADDRESS}add/", FORM | {"name": "other"}, secure=True)
    client.post(f"{ADDRESS}{row.pk}/delete/", {"post": "yes"}, secure=True)
    assert McpServer.objects.get().revision == row.revision


async def test_workers_are_notified_of_server_change(bus_messages, eventually):
    server()
    await eventually(lambda: SourcesChanged() in bus_messages)
