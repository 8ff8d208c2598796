"""Every tool that can be offered at this moment, made and ready to be called; tools_app.sources.offered says which these are.

Sync, for threads of infra.db that read: after a change, the lists of all servers are read anew, which may take a second.
"""

from functools import lru_cache, partial

from tools_app.core.plugin_hooks import Hook, HookAnswer, HookCall, PluginHook
from tools_app.models import McpServer
from tools_app.sources import offered, plugins, registry
from tools_app.sources.mcp.tools import make_factories
from tools_app.sources.offered import OfferedTools, SourceState
from tools_app.sources.plugins import LoadedPlugin
from tools_app.sources.registry import RegisteredTool, ToolRegistry


def load_tools() -> ToolRegistry:
    """The tools of this moment. A policy may also name what is switched off."""
    return _build_registry(*offered.read_state())


def plugin_hooks() -> tuple[PluginHook, ...]:
    """The before_tool_call hooks of enabled plugins, in the order of the plugins' names.

    One that had hooks and cannot be loaded, or whose import goes on, blocks every call: somebody wanted each of them looked at.
    """
    return _collect_hooks(offered.load_offered_tools())


def tools_and_hooks() -> tuple[ToolRegistry, tuple[PluginHook, ...]]:
    """Both with one query, for every run begins with it."""
    state = offered.read_state()
    return _build_registry(*state), _collect_hooks(offered.build_offered_tools(*state))


def loaded_plugins() -> list[LoadedPlugin]:
    """What became of each enabled plugin in this process."""
    return [*offered.load_offered_tools().loaded]


def clear_caches() -> None:
    """What was made of rows that are not committed must not be remembered: other rows may get the same numbers."""
    offered.build_offered_tools.cache_clear()
    _build_registry.cache_clear()


def _collect_hooks(now: OfferedTools) -> tuple[PluginHook, ...]:
    return tuple(PluginHook(each.name, hook) for each in now.loaded for hook in _blocking_hooks(now, each) or each.before_tool_call)


def _blocking_hooks(now: OfferedTools, loaded: LoadedPlugin) -> tuple[Hook, ...]:
    """In place of hooks that should be there and are not, or of which nobody knows yet whether they are."""
    if loaded.error and loaded.name in now.plugins_with_hooks:
        return (lambda _call: HookAnswer(block=f"it looks at every call, and cannot be loaded ({loaded.error})"),)
    return (partial(_block_until_imported, loaded.name),) if loaded.error == plugins.IMPORT_UNFINISHED else ()


def _block_until_imported(plugin: str, _call: HookCall) -> HookAnswer | None:
    """For a run that began before the import ended, which may be over by the time of a call."""
    ended = plugins.get_loaded(plugin)
    if ended.error == plugins.IMPORT_UNFINISHED:
        return HookAnswer(block="it may want to look at every call, and its import has not ended yet; try again later")
    if ended.before_tool_call:
        return HookAnswer(block="it looks at every call, and was loaded after this run began; the next run has it")
    return None


@lru_cache(maxsize=2)
def _build_registry(state: SourceState, imported: frozenset[str]) -> ToolRegistry:
    """Remembered as the offer is."""
    now = offered.build_offered_tools(state, imported)
    made = [*registry.load_installed().tools.items()]
    for plugin in now.loaded:
        made += [(tool.name, RegisteredTool(tool, now.facts[tool.name])) for tool in plugin.tools]
    for server in McpServer.objects.filter(enabled=True).order_by("name"):
        tools = (tool for tool in make_factories(server) if now.brings(tool.name, server.name))
        made += [(tool.name, RegisteredTool(tool, now.facts[tool.name])) for tool in tools]
    # Of two plugins with an engine of the same name the first counts, by the order of the plugins' names.
    engines = {name: engine for plugin in reversed(now.loaded) for name, engine in plugin.search_providers.items()}
    return ToolRegistry(dict(made), frozenset(now.ids), frozenset(now.off), engines)
