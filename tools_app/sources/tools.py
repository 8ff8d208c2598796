"""Load every tool that is currently offered, ready to be called; tools_app.sources.offered decides which ones.

Sync, for the reader threads of infra.db: after a change all server lists are read again, which may take 1 s.
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
    """Return the current tools. A policy may also name disabled ones."""
    return _build_registry(*offered.read_state())


def plugin_hooks() -> tuple[PluginHook, ...]:
    """The before_tool_call hooks of enabled plugins, in the order of the plugins' names.

    A plugin that had hooks but can't be loaded, or is still being imported, blocks every call: hooks must not be skipped.
    """
    return _collect_hooks(offered.load_offered_tools())


def tools_and_hooks() -> tuple[ToolRegistry, tuple[PluginHook, ...]]:
    """Return both with one query, because every run needs them when it starts."""
    state = offered.read_state()
    return _build_registry(*state), _collect_hooks(offered.build_offered_tools(*state))


def loaded_plugins() -> list[LoadedPlugin]:
    """Return the import result of each enabled plugin in this process."""
    return [*offered.load_offered_tools().loaded]


def clear_caches() -> None:
    """Drop cached results built from uncommitted rows: other rows may get the same IDs."""
    offered.build_offered_tools.cache_clear()
    _build_registry.cache_clear()


def _collect_hooks(now: OfferedTools) -> tuple[PluginHook, ...]:
    return tuple(PluginHook(each.name, hook) for each in now.loaded for hook in _blocking_hooks(now, each) or each.before_tool_call)


def _blocking_hooks(now: OfferedTools, loaded: LoadedPlugin) -> tuple[Hook, ...]:
    """Return hooks that block every call if the plugin's hooks are missing or not known yet."""
    if loaded.error and loaded.name in now.plugins_with_hooks:
        return (lambda _call: HookAnswer(block=f"it checks every call but can't be loaded ({loaded.error})"),)
    return (partial(_block_until_imported, loaded.name),) if loaded.error == plugins.IMPORT_UNFINISHED else ()


def _block_until_imported(plugin: str, _call: HookCall) -> HookAnswer | None:
    """Block the call, because the run began before the plugin's import finished. The import may have finished since."""
    loaded = plugins.get_loaded(plugin)
    if loaded.error == plugins.IMPORT_UNFINISHED:
        return HookAnswer(block="it may need to check every call, but is still being imported; try again later")
    if loaded.before_tool_call:
        return HookAnswer(block="it checks every call but was loaded after this run began; it will apply to the next run")
    return None


@lru_cache(maxsize=2)
def _build_registry(state: SourceState, imported: frozenset[str]) -> ToolRegistry:
    """Build the registry. Cached like the offered tools."""
    now = offered.build_offered_tools(state, imported)
    registered = [*registry.load_installed().tools.items()]
    for plugin in now.loaded:
        registered += [(tool.name, RegisteredTool(tool, now.facts[tool.name])) for tool in plugin.tools]
    for server in McpServer.objects.filter(enabled=True).order_by("name"):
        tools = (tool for tool in make_factories(server) if now.is_from_plugin(tool.name, server.name))
        registered += [(tool.name, RegisteredTool(tool, now.facts[tool.name])) for tool in tools]
    # If two plugins have an engine with the same name, the first by plugin name wins.
    engines = {name: engine for plugin in reversed(now.loaded) for name, engine in plugin.search_providers.items()}
    return ToolRegistry(dict(registered), frozenset(now.ids), frozenset(now.off), engines)
