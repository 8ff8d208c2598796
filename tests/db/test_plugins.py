"""Plugins: found without being imported, off until enabled, and never able to stop anything."""

import asyncio
import threading

import pytest
from django.db import connection

from clawsite.infra import db
from clawsite.infra.errors import Unavailable
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


def test_an_installed_plugin_is_listed_and_not_imported(add_plugin):
    plugin = add_plugin("echo", ECHO_PLUGIN.format(tool="echo_word"), enabled=False)
    assert (plugin.package, plugin.version, plugin.enabled, plugin.error) == ("clawsite-echo", "1.2", False, "")
    assert plugin.seen_at
    assert not (add_plugin.folder / "echo.imported").exists()
    assert "echo_word" not in source_tools.load_tools().tools


async def test_an_enabled_plugin_offers_its_tools_as_a_group_of_its_own(add_plugin):
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


def test_a_plugin_that_is_switched_off_is_gone_and_policies_may_still_name_it(add_plugin):
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
def test_a_plugin_that_cannot_be_used_is_shown_with_its_error_and_left_out(add_plugin, code, error):
    natives = set(source_tools.load_tools().tools)
    plugin = add_plugin("bad", code)
    assert error in plugin.error
    assert set(source_tools.load_tools().tools) == natives
    assert source_tools.load_tools().plugins == frozenset()


@pytest.mark.parametrize("name", ["read", "exec", "bash", "Big"])
def test_a_plugin_cannot_take_the_name_of_a_tool(add_plugin, name):
    assert "invalid plugin name" in add_plugin(name, ECHO_PLUGIN.format(tool="harmless")).error
    assert "harmless" not in source_tools.load_tools().tools


def test_of_two_plugins_with_the_same_tool_the_first_by_name_keeps_it(add_plugin):
    first, second = (
        add_plugin("alpha", ECHO_PLUGIN.format(tool="echo_word")),
        add_plugin("beta", ECHO_PLUGIN.format(tool="echo_word")),
    )
    assert first.error == ""
    assert second.error == "echo_word is already a tool of alpha"
    assert source_tools.load_tools().tools["echo_word"].facts.plugin == "alpha"


@pytest.fixture
def slow(add_plugin, monkeypatch):
    """Code of a plugin whose import goes on until slow.may_end is set, and that counts how often it is begun."""
    monkeypatch.setattr(plugins, "IMPORT_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(threading, "test_may_end", threading.Event(), raising=False)
    monkeypatch.setattr(threading, "test_begun", [], raising=False)
    code = "import threading\nthreading.test_begun.append(1)\nthreading.test_may_end.wait()\n" + ECHO_PLUGIN.format(
        tool="slow_word"
    )
    add_plugin("slow", code, enabled=False)
    yield threading
    threading.test_may_end.set()


async def test_a_plugin_whose_import_goes_on_holds_nobody_up_and_is_there_when_it_ends(add_plugin, slow, eventually):
    add_plugin("echo", ECHO_PLUGIN.format(tool="echo_word"))
    await eventually(lambda: "echo_word" in source_tools.load_tools().tools)
    Plugin.objects.filter(name="slow").update(enabled=True)
    looks = [db.read(source_tools.load_tools) for _ in range(3 * db.READER_THREADS)]  # more than there are threads to read on
    for known in await asyncio.gather(*looks):
        assert "echo_word" in known.tools
        assert "slow_word" not in known.tools
    record_plugins()
    assert Plugin.objects.get(name="slow").error == "its import has not ended yet"
    slow.test_may_end.set()
    await eventually(lambda: "slow_word" in source_tools.load_tools().tools)
    assert len(slow.test_begun) == 1
    record_plugins()
    assert Plugin.objects.get(name="slow").error == ""


async def test_a_worker_imports_plugins_before_its_first_run(slow):
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
def test_nothing_is_published_while_a_plugin_is_still_being_imported(slow, monkeypatch):
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
def test_a_publication_waits_for_plugins_outside_of_its_transaction(slow, monkeypatch):
    Plugin.objects.filter(name="slow").update(enabled=True)
    imported, waited_in = plugins.import_plugins, []

    def end(names, patience):
        waited_in.append(connection.in_atomic_block)
        slow.test_may_end.set()
        return imported(names, patience)

    monkeypatch.setattr(plugins, "import_plugins", end)
    save_policy(scope="global", deny=["slow_word"])
    assert waited_in[0] is False


def test_a_factory_that_fails_declines(add_plugin):
    code = (
        ECHO_PLUGIN.format(tool="echo_word") + "\nmake = None\nimport dataclasses\n\ndef broken(env):\n    raise ValueError('no')\n"
    )
    add_plugin("echo", code + "tools = [dataclasses.replace(tools[0], make=broken)]\n")
    with pytest.raises(ToolUnavailable, match="it could not be made, see the log: `ValueError`"):
        source_tools.load_tools().tools["echo_word"].factory.create(env())


def test_hooks_of_enabled_plugins_are_collected(add_plugin):
    add_plugin("guard", "def stop(call): return None\nbefore_tool_call = [stop]\n")
    (found,) = source_tools.plugin_hooks()
    assert (found.plugin, found.hook.__name__) == ("guard", "stop")


def test_hooks_that_cannot_be_loaded_any_more_block_every_call(add_plugin, monkeypatch):
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


def test_hooks_that_another_process_found_block_every_call_where_they_cannot_be_loaded(add_plugin, monkeypatch):
    monkeypatch.setattr(plugins, "_load_plugin", lambda name: LoadedPlugin(name, error="ImportError: gone"))
    Plugin.objects.create(name="guard", enabled=True)
    assert source_tools.plugin_hooks() == ()
    Plugin.objects.update(has_hooks=True)
    (found,) = source_tools.plugin_hooks()
    assert "can't be loaded" in found.hook(HookCall("read", {}, "main", "main")).block


def test_tools_that_another_process_found_may_be_named_where_they_cannot_be_loaded(add_plugin, monkeypatch):
    monkeypatch.setattr(plugins, "_load_plugin", lambda name: LoadedPlugin(name, error="ImportError: gone"))
    Plugin.objects.create(name="later", enabled=True)
    assert not source_tools.load_tools().knows("later_tool")
    Plugin.objects.update(tools=["later_tool"])
    assert source_tools.load_tools().knows("later_tool")


LOOKS = "\ndef look(call): return None\nbefore_tool_call = [look]\n"


@pytest.mark.parametrize(("more", "then"), [("", None), (LOOKS, "was loaded after this run began")])
async def test_no_call_is_made_while_nobody_knows_whether_a_plugin_has_hooks(add_plugin, slow, eventually, more, then):
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


def test_an_allow_list_of_a_plugin_that_is_off_is_warned_about_too(add_plugin):
    Plugin.objects.create(name="later", enabled=False, tools=["later_tool"])
    rule = normalize_row(scope="agent", subject="main", allow=["later"])
    assert not list(find_errors(rule))
    assert "names only plugins" in next(find_warnings(rule, current_rules())).message


def test_a_plugin_that_was_removed_says_so(add_plugin):
    add_plugin("echo", ECHO_PLUGIN.format(tool="echo_word"))
    for each in add_plugin.folder.glob("*.dist-info/*"):
        each.unlink()
    unload_plugins(add_plugin.folder)
    record_plugins()
    assert Plugin.objects.get().error == "it is not installed any more"


def test_what_is_known_is_remembered_until_a_row_changes(add_plugin, django_assert_num_queries):
    plugin = add_plugin("echo", ECHO_PLUGIN.format(tool="echo_word"))
    source_tools.load_tools()
    with django_assert_num_queries(1):
        first = source_tools.load_tools()
    assert first.tools is source_tools.load_tools().tools
    source_changes.switch_plugins([plugin], on=False)
    assert first.tools is not source_tools.load_tools().tools


async def test_a_worker_lists_what_is_installed(add_plugin):
    install_plugin(add_plugin.folder, "later", ECHO_PLUGIN.format(tool="later_word"))
    keeper = SourceRefresher()
    try:
        await keeper.refresh()
    finally:
        await keeper.close()
    assert Plugin.objects.get().name == "later"


def test_a_server_may_not_be_called_like_a_plugin(add_plugin):
    from clawsite.infra.errors import InvalidRequest

    add_plugin("echo", ECHO_PLUGIN.format(tool="echo_word"), enabled=False)
    with pytest.raises(InvalidRequest, match="is already the name of a tool or plugin"):
        source_changes.save_server(McpServer(name="echo", command="true"))


def test_a_run_goes_on_beside_a_broken_plugin(add_plugin):
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


async def test_a_plugin_brings_a_search_engine_while_it_is_on(add_plugin, settings):
    plugin = add_plugin("finder", ENGINE)
    assert plugin.error == ""
    made, declined = source_tools.load_tools().create(["web_search"], env())
    assert declined == {}
    perform = made["web_search"].perform
    result = await perform(made["web_search"].check({"query": "claws"}), CallContext("c", print, asyncio.Event()))
    assert result.details["provider"] == "acme"
    assert "About claws" in result.text
    settings.SEARCH_PROVIDER = "unset"
    assert (
        "names a search engine that is not configured: `unset`"
        in source_tools.load_tools().create(["web_search"], env())[1]["web_search"]
    )
    settings.SEARCH_PROVIDER = "acme"
    source_changes.switch_plugins([plugin], on=False)
    assert "unknown search engine: `acme`" in source_tools.load_tools().create(["web_search"], env())[1]["web_search"]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("search_providers = {'brave': print}", "'brave' is already a search engine"),
        ("search_providers = ['acme']", "its `search_providers` is not a dict of names to search engine factories"),
        ("search_providers = {'acme': 'Acme'}", "its `search_providers` is not a dict of names to search engine factories"),
    ],
)
def test_a_search_engine_that_cannot_be_used_is_told_to_the_operator(add_plugin, code, error):
    assert add_plugin("finder", code).error == error


def test_a_search_engine_that_fails_at_its_making_costs_no_run(add_plugin):
    add_plugin("finder", "search_providers = {'acme': lambda: 1 / 0}")
    made, declined = source_tools.load_tools().create(["web_search", "session_status"], env())
    assert (list(made), list(declined)) == (["session_status"], ["web_search"])
