"""Plugins: discovered without importing them, disabled by default, and never able to stop a process."""

import asyncio
import threading

import pytest
from django.db import connection

from clawsite.infra import db
from clawsite.infra.errors import Unavailable
from clawsite.infra.reasons import Reason
from tests.harness.plugins import ECHO_PLUGIN, install_plugin, record_plugins, unload_plugins
from tools_app.core.definition import CallContext, ToolEnv, ToolUnavailable
from tools_app.core.plugin_hooks import HookCall
from tools_app.models import McpServer, Plugin
from tools_app.policy.query import ToolFacts
from tools_app.policy_store import source_changes
from tools_app.policy_store.checks import find_errors, find_warnings, normalize_row
from tools_app.policy_store.policies import current_rules, save_policy
from tools_app.policy_store.policy_tests import save_test
from tools_app.sources import offered, plugins
from tools_app.sources import tools as source_tools
from tools_app.sources.plugins import LoadedPlugin
from tools_app.sources.refresh import SourceRefresher
from tools_app.toolset import build_toolset

pytestmark = pytest.mark.usefixtures("database")


def env() -> ToolEnv:
    return ToolEnv(workspace=None, agent="main", owner_id=1, session_id="s", session_key="agent:main:main")


def test_installed_disabled_plugin_is_listed_but_not_imported(add_plugin):
    plugin = add_plugin("echo", ECHO_PLUGIN.format(tool="echo_word"), enabled=False)
    assert (plugin.package, plugin.version, plugin.enabled, plugin.error) == ("clawsite-echo", "1.2", False, "")
    assert plugin.seen_at
    assert not (add_plugin.folder / "echo.imported").exists()
    assert "echo_word" not in source_tools.load_tools().tools


async def test_enabled_plugin_offers_tools_in_own_group(add_plugin):
    plugin = add_plugin("echo", ECHO_PLUGIN.format(tool="echo_word"))
    assert (plugin.tools, plugin.error) == (["echo_word"], "")
    known = source_tools.load_tools()
    assert known.tools["echo_word"].facts == ToolFacts("echo_word", ("plugins",), "echo")
    assert known.knows("echo")
    assert source_tools.load_tools().plugins == {"echo"}
    perform = known.tools["echo_word"].factory.create(env()).perform
    args = known.tools["echo_word"].factory.check({"word": "hello"})
    result = await perform(args, CallContext("c", print, asyncio.Event()))
    assert result.text == "echo_word says hello"


def test_disabled_plugin_offers_no_tools_but_stays_known(add_plugin):
    plugin = add_plugin("echo", ECHO_PLUGIN.format(tool="echo_word"))
    source_changes.switch_plugins([plugin], on=False)
    known = source_tools.load_tools()
    assert "echo_word" not in known.tools
    assert known.knows("echo")
    assert known.knows("echo_word")
    assert source_tools.load_tools().plugins == frozenset()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("this is no Python", "SyntaxError"),
        ("", "it offers neither `tools` nor `before_tool_call` nor `search_providers`"),
        ("tools = 5", "its `tools` is not a list"),
        ("tools = ['read']", "`tools` contains a str: create tools with @tool"),
        ("before_tool_call = [3]", "`before_tool_call` contains an object that is not callable"),
        (ECHO_PLUGIN.format(tool="read"), "read is already a tool"),
        (ECHO_PLUGIN.format(tool="browser"), "plugin bad may not use the name of a native tool (browser)"),
        (ECHO_PLUGIN.format(tool="exec"), "exec is already a tool"),
    ],
)
def test_broken_plugin_shows_error_and_is_skipped(add_plugin, code, error):
    natives = set(source_tools.load_tools().tools)
    plugin = add_plugin("bad", code)
    assert error in plugin.error
    assert set(source_tools.load_tools().tools) == natives
    assert source_tools.load_tools().plugins == frozenset()


@pytest.mark.parametrize("name", ["read", "exec", "bash", "Big"])
def test_plugin_cannot_use_name_of_tool(add_plugin, name):
    assert "invalid plugin name" in add_plugin(name, ECHO_PLUGIN.format(tool="harmless")).error
    assert "harmless" not in source_tools.load_tools().tools


def test_first_plugin_by_name_keeps_conflicting_tool(add_plugin):
    first, second = (
        add_plugin("alpha", ECHO_PLUGIN.format(tool="echo_word")),
        add_plugin("beta", ECHO_PLUGIN.format(tool="echo_word")),
    )
    assert first.error == ""
    assert second.error == "echo_word is already a tool of alpha"
    assert source_tools.load_tools().tools["echo_word"].facts.plugin == "alpha"


@pytest.fixture
def slow(add_plugin, monkeypatch):
    """Code of a plugin whose import lasts until slow.may_end is set, and which counts its imports."""
    monkeypatch.setattr(plugins, "IMPORT_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(threading, "test_may_end", threading.Event(), raising=False)
    monkeypatch.setattr(threading, "test_begun", [], raising=False)
    code = "import threading\nthreading.test_begun.append(1)\nthreading.test_may_end.wait()\n" + ECHO_PLUGIN.format(
        tool="slow_word"
    )
    add_plugin("slow", code, enabled=False)
    yield threading
    threading.test_may_end.set()


async def test_slow_plugin_import_does_not_block_readers(add_plugin, slow, eventually):
    add_plugin("echo", ECHO_PLUGIN.format(tool="echo_word"))
    await eventually(lambda: "echo_word" in source_tools.load_tools().tools)
    Plugin.objects.filter(name="slow").update(enabled=True)
    looks = [db.read(source_tools.load_tools) for _ in range(3 * db.READER_THREADS)]  # more than there are reader threads
    for known in await asyncio.gather(*looks):
        assert "echo_word" in known.tools
        assert "slow_word" not in known.tools
    record_plugins()
    assert Plugin.objects.get(name="slow").error == "its import has not finished yet"
    slow.test_may_end.set()
    await eventually(lambda: "slow_word" in source_tools.load_tools().tools)
    assert len(slow.test_begun) == 1
    record_plugins()
    assert Plugin.objects.get(name="slow").error == ""


async def test_worker_imports_plugins_before_first_run(slow):
    Plugin.objects.filter(name="slow").update(enabled=True)
    keeper = SourceRefresher()
    begun = asyncio.create_task(keeper.begin())
    await asyncio.sleep(0)
    assert not begun.done()
    slow.test_may_end.set()
    await begun
    assert "slow_word" in offered.load_offered_tools(wait=False).facts
    await keeper.close()


@pytest.mark.usefixtures("fresh_policy")
def test_changes_are_rejected_during_plugin_import(slow, monkeypatch):
    monkeypatch.setattr(plugins, "IMPORT_TIMEOUT_SECONDS", 0.05)
    Plugin.objects.filter(name="slow").update(enabled=True)
    changes = [
        lambda: save_policy(scope="global", deny=["cron"]),
        lambda: save_test(name="no cron", expected="never", tool="cron", agent="main"),
        lambda: source_changes.save_server(McpServer(name="weather", command="true")),
    ]
    for change in changes:
        with pytest.raises(Unavailable, match="slow: still being imported") as refused:
            change()
        assert refused.value.retryable
    source_changes.switch_plugins(Plugin.objects.all(), on=False)
    for change in changes:
        change()


@pytest.mark.usefixtures("fresh_policy")
def test_publishing_waits_for_plugins_outside_transaction(slow, monkeypatch):
    Plugin.objects.filter(name="slow").update(enabled=True)
    imported, waited_in = plugins.import_plugins, []

    def end(names, patience):
        waited_in.append(connection.in_atomic_block)
        slow.test_may_end.set()
        return imported(names, patience)

    monkeypatch.setattr(plugins, "import_plugins", end)
    save_policy(scope="global", deny=["slow_word"])
    assert waited_in[0] is False


def test_failing_tool_factory_makes_tool_unavailable(add_plugin):
    code = (
        ECHO_PLUGIN.format(tool="echo_word") + "\nmake = None\nimport dataclasses\n\ndef broken(env):\n    raise ValueError('no')\n"
    )
    add_plugin("echo", code + "tools = [dataclasses.replace(tools[0], make=broken)]\n")
    with pytest.raises(ToolUnavailable) as unavailable:
        source_tools.load_tools().tools["echo_word"].factory.create(env())
    assert unavailable.value.reason == Reason("tool.factory_failed", error="ValueError")


def test_hooks_of_enabled_plugins_are_collected(add_plugin):
    add_plugin("guard", "def stop(call): return None\nbefore_tool_call = [stop]\n")
    (found,) = source_tools.plugin_hooks()
    assert (found.plugin, found.hook.__name__) == ("guard", "stop")


def test_unloadable_hooks_block_every_tool_call(add_plugin, monkeypatch):
    add_plugin("guard", "def stop(call): return None\nbefore_tool_call = [stop]\n")
    plugins.record_plugins(plugins.list_installed(), source_tools.loaded_plugins())
    assert Plugin.objects.get(name="guard").has_hooks
    source_tools.clear_caches()
    plugins._imports.clear()
    monkeypatch.setattr(plugins, "_load_plugin", lambda name: LoadedPlugin(name, error="ImportError: gone"))
    (found,) = source_tools.plugin_hooks()
    assert "can't be loaded (ImportError: gone)" in found.hook(HookCall("read", {}, "main", "main")).block
    plugins.record_plugins(plugins.list_installed(), source_tools.loaded_plugins())
    assert Plugin.objects.get(name="guard").has_hooks


def test_unloadable_hooks_recorded_by_another_process_block_calls(add_plugin, monkeypatch):
    monkeypatch.setattr(plugins, "_load_plugin", lambda name: LoadedPlugin(name, error="ImportError: gone"))
    Plugin.objects.create(name="guard", enabled=True)
    assert source_tools.plugin_hooks() == ()
    Plugin.objects.update(has_hooks=True)
    (found,) = source_tools.plugin_hooks()
    assert "can't be loaded" in found.hook(HookCall("read", {}, "main", "main")).block


def test_unloadable_tools_recorded_by_another_process_stay_known(add_plugin, monkeypatch):
    monkeypatch.setattr(plugins, "_load_plugin", lambda name: LoadedPlugin(name, error="ImportError: gone"))
    Plugin.objects.create(name="later", enabled=True)
    assert not source_tools.load_tools().knows("later_tool")
    Plugin.objects.update(tools=["later_tool"])
    assert source_tools.load_tools().knows("later_tool")


LOOKS = "\ndef look(call): return None\nbefore_tool_call = [look]\n"


@pytest.mark.parametrize(("more", "then"), [("", None), (LOOKS, "was loaded after this run began")])
async def test_tool_calls_are_blocked_during_plugin_import(add_plugin, slow, eventually, more, then):
    with (add_plugin.folder / "slow_plugin.py").open("a") as code:
        code.write(more)
    Plugin.objects.filter(name="slow").update(enabled=True)
    (found,) = source_tools.plugin_hooks()
    call = HookCall("read", {}, "main", "main")
    assert "is still being imported" in found.hook(call).block
    slow.test_may_end.set()
    await eventually(lambda: "slow_word" in source_tools.load_tools().tools)
    answer = found.hook(call)
    assert then in answer.block if then else answer is None
    assert len(source_tools.plugin_hooks()) == bool(more)


def test_allow_list_naming_disabled_plugin_causes_warning(add_plugin):
    Plugin.objects.create(name="later", enabled=False, tools=["later_tool"])
    rule = normalize_row(scope="agent", subject="main", allow=["later"])
    assert not list(find_errors(rule))
    assert "names only plugins" in next(find_warnings(rule, current_rules())).message


def test_uninstalled_plugin_shows_error(add_plugin):
    add_plugin("echo", ECHO_PLUGIN.format(tool="echo_word"))
    for each in add_plugin.folder.glob("*.dist-info/*"):
        each.unlink()
    unload_plugins(add_plugin.folder)
    record_plugins()
    assert Plugin.objects.get().error == "it is no longer installed"


def test_tools_are_cached_until_plugin_row_changes(add_plugin, django_assert_num_queries):
    plugin = add_plugin("echo", ECHO_PLUGIN.format(tool="echo_word"))
    source_tools.load_tools()
    with django_assert_num_queries(1):
        first = source_tools.load_tools()
    assert first.tools is source_tools.load_tools().tools
    source_changes.switch_plugins([plugin], on=False)
    assert first.tools is not source_tools.load_tools().tools


async def test_worker_records_installed_plugins(add_plugin):
    install_plugin(add_plugin.folder, "later", ECHO_PLUGIN.format(tool="later_word"))
    keeper = SourceRefresher()
    try:
        await keeper.refresh()
    finally:
        await keeper.close()
    assert Plugin.objects.get().name == "later"


def test_server_cannot_use_name_of_plugin(add_plugin):
    from clawsite.infra.errors import InvalidRequest

    add_plugin("echo", ECHO_PLUGIN.format(tool="echo_word"), enabled=False)
    with pytest.raises(InvalidRequest, match="is already the name of a tool or plugin"):
        source_changes.save_server(McpServer(name="echo", command="true"))


def test_broken_plugin_does_not_break_toolset(add_plugin):
    from tools_app.policy.query import PolicyQuery

    add_plugin("bad", "raise RuntimeError('broken')")
    toolset = build_toolset(env(), PolicyQuery(agent="main"), current_rules(), source_tools.load_tools())
    assert "bad" not in {facts.plugin for facts in toolset.query.tools}


ENGINE = """
from tools_app.web_search.base import WebSearchResult


class Acme:
    name = "acme"

    async def search(self, query):
        return [WebSearchResult("About " + query.text, "https://acme.example/", "found by acme")]


search_providers = {"acme": Acme, "unset": lambda: None}
"""


async def test_enabled_plugin_provides_search_engine(add_plugin, settings):
    plugin = add_plugin("finder", ENGINE)
    assert plugin.error == ""
    made, declined = source_tools.load_tools().create(["web_search"], env())
    assert declined == {}
    perform = made["web_search"].perform
    result = await perform(made["web_search"].check({"query": "claws"}), CallContext("c", print, asyncio.Event()))
    assert result.details["provider"] == "acme"
    assert "About claws" in result.text
    settings.SEARCH_PROVIDER = "unset"
    _created, unavailable = source_tools.load_tools().create(["web_search"], env())
    assert unavailable == {"web_search": Reason("tool.search_engine_not_configured", name="unset")}
    settings.SEARCH_PROVIDER = "acme"
    source_changes.switch_plugins([plugin], on=False)
    _created, unavailable = source_tools.load_tools().create(["web_search"], env())
    assert unavailable == {"web_search": Reason("tool.search_engine_unknown", name="acme")}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("search_providers = {'brave': print}", "'brave' is already a search engine"),
        ("search_providers = ['acme']", "its `search_providers` is not a dict of names to search engine factories"),
        ("search_providers = {'acme': 'Acme'}", "its `search_providers` is not a dict of names to search engine factories"),
    ],
)
def test_invalid_search_engine_is_reported_as_plugin_error(add_plugin, code, error):
    assert add_plugin("finder", code).error == error


def test_failing_search_engine_only_disables_web_search(add_plugin):
    add_plugin("finder", "search_providers = {'acme': lambda: 1 / 0}")
    made, declined = source_tools.load_tools().create(["web_search", "session_status"], env())
    assert (list(made), list(declined)) == (["session_status"], ["web_search"])
