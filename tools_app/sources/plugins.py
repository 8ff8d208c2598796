"""Plugins: distributions with an entry point in the group `clawsite.plugins`. Off until an operator enables them.

An entry point refers to a module or object with one or more of these:

    tools = [make_forecast]                       # created with @tool
    before_tool_call = [check_address]            # hooks, see tools_app.core.plugin_hooks
    search_providers = {"acme": configured}       # engines for web_search, see tools_app.web_search

Installed plugins are found by their metadata; their code doesn't run before an operator enables them. A plugin that can't be
used is shown with its error and left out; it never stops a process or a run. But if it had hooks, or may have some once its
import finishes, calls are blocked.
"""

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ParamSpec, TypeVar

from django.db import transaction
from django.utils.translation import gettext as _

from clawsite.infra import clock
from clawsite.infra.errors import Unavailable
from clawsite.infra.text import make_storable
from tools_app.core.definition import TOOL_NAME, ToolFactory
from tools_app.models import Plugin
from tools_app.web_search.registry import PROVIDERS

log = logging.getLogger(__name__)

ENTRY_POINT_GROUP = "clawsite.plugins"
IMPORT_TIMEOUT_SECONDS = 30.0  # for a worker before its first run, and an operator enabling a plugin
IMPORT_WAIT_SECONDS = 1.0  # for everything else that needs a plugin during its import
IMPORT_UNFINISHED = "its import has not finished yet"
MAX_ERROR_LENGTH = 500

P = ParamSpec("P")
R = TypeVar("R")


class BadPlugin(Exception):
    """The plugin offers something unusable. The message is for the operator."""


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    name: str
    package: str
    version: str


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """What an enabled plugin provides; nothing if it has an `error`."""

    name: str
    tools: tuple[ToolFactory, ...] = ()
    before_tool_call: tuple[Callable[..., Any], ...] = ()
    search_providers: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    error: str = ""


def find_entry_points() -> dict[str, EntryPoint]:
    """Return entry points by name, from metadata only. If two have the same name, the first on the path wins."""
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        points.setdefault(point.name, point)
    return points


def list_installed() -> list[InstalledPlugin]:
    """Return the installed plugins with package and version."""
    return [
        InstalledPlugin(name, point.dist.name if point.dist else "", point.dist.version if point.dist else "")
        for name, point in find_entry_points().items()
    ]


@transaction.atomic
def record_plugins(installed: Iterable[InstalledPlugin], loaded: Iterable[LoadedPlugin]) -> None:
    """Update the rows to match the installed plugins and what loading them provided. Only changed rows are written.

    A plugin that is no longer installed keeps its row and its enabled flag, with an error.
    """
    rows = {row.name: row for row in Plugin.objects.all()}
    results = {each.name: each for each in loaded}
    for each in installed:
        row = rows.pop(each.name, None) or Plugin(name=each.name[:64])
        result = results.get(each.name, LoadedPlugin(each.name))
        error = make_storable(result.error)[:MAX_ERROR_LENGTH] if row.enabled else ""
        # Keep what it had when last loaded: policies may name its tools, and missing hooks must not go unnoticed.
        is_there = row.enabled and not error
        tools = [tool.name for tool in result.tools] if is_there else row.tools
        has_hooks = bool(result.before_tool_call) if is_there else row.has_hooks
        now = (each.package[:200], each.version[:64], tools, has_hooks, error)
        if row.pk is None or not row.seen_at or (row.package, row.version, row.tools, row.has_hooks, row.error) != now:
            row.package, row.version, row.tools, row.has_hooks, row.error = now
            row.seen_at = clock.now()
            row.save(update_fields=None if row.pk is None else ["package", "version", "tools", "has_hooks", "error", "seen_at"])
    for row in rows.values():
        Plugin.objects.filter(pk=row.pk).update(seen_at=None, error="it is no longer installed")


def list_enabled() -> list[str]:
    return list(Plugin.objects.filter(enabled=True).values_list("name", flat=True))


class _PluginImport:
    """Imports one plugin on a separate thread, because a hanging import can't be interrupted, only abandoned."""

    def __init__(self, name: str) -> None:
        self.began = time.monotonic()
        self.over = threading.Event()
        self.outcome = LoadedPlugin(name, error=IMPORT_UNFINISHED)
        threading.Thread(target=self._run, name=f"plugin {name}", daemon=True).start()

    def _run(self) -> None:
        self.outcome = _load_plugin(self.outcome.name)
        if self.outcome.error:
            log.warning("skipped plugin %s: %s", self.outcome.name, self.outcome.error)
        self.over.set()


_imports: dict[str, _PluginImport] = {}  # of this process; a failed import is retried only after a restart
_imports_lock = threading.Lock()


def import_plugins(names: Iterable[str], patience: float) -> frozenset[str]:
    """Import plugins that are not imported yet; return those whose import finished, successfully or not.

    Waits at most `patience` seconds from the start of each import, because shared threads call this. An import that finishes
    later counts from then on.
    """
    with _imports_lock:
        imports = {name: _imports.get(name) or _imports.setdefault(name, _PluginImport(name)) for name in names}
    for each in imports.values():
        each.over.wait(max(0.0, each.began + patience - time.monotonic()))
    return frozenset(name for name, each in imports.items() if each.over.is_set())


def require_imported(names: Iterable[str]) -> None:
    """Call before a transaction that depends on what these plugins provide. Raise Unavailable while one is being imported."""
    names = list(names)
    if unfinished := sorted(set(names) - import_plugins(names, IMPORT_TIMEOUT_SECONDS)):
        message = _("%(plugins)s: still being imported. Try again in a moment, or disable it.")
        raise Unavailable(message % {"plugins": ", ".join(unfinished)}, retryable=True)


def requires_plugins(change: Callable[P, R]) -> Callable[P, R]:
    """Run the change in a transaction once every enabled plugin is imported, because it is checked against what they provide."""

    @functools.wraps(change)
    def changed(*args: P.args, **kwargs: P.kwargs) -> R:
        require_imported(list_enabled())
        with transaction.atomic():
            return change(*args, **kwargs)

    return changed


def get_loaded(name: str) -> LoadedPlugin:
    """Return the import result of a plugin. Neither waits nor raises."""
    begun = _imports.get(name)
    return begun.outcome if begun else LoadedPlugin(name, error=IMPORT_UNFINISHED)


def _load_plugin(name: str) -> LoadedPlugin:
    try:
        point = find_entry_points().get(name)
        if point is None:
            raise BadPlugin("it is not installed")
        offered = point.load()
        tools, hooks = _read_list(offered, "tools"), _read_list(offered, "before_tool_call")
        engines = _read_search_providers(offered)
        if not tools and not hooks and not engines:
            raise BadPlugin("it offers neither `tools` nor `before_tool_call` nor `search_providers`")
        _check_plugin(tools, hooks)
        return LoadedPlugin(name, tuple(tools), tuple(hooks), engines)
    except BadPlugin as bad:
        return LoadedPlugin(name, error=str(bad))
    except BaseException as error:  # third-party code may raise anything at import, even SystemExit
        return LoadedPlugin(name, error=f"{type(error).__name__}: {error}")


def _read_list(plugin: Any, what: str) -> list[Any]:
    value = getattr(plugin, what, [])
    if not isinstance(value, list | tuple):
        raise BadPlugin(f"its `{what}` is not a list")
    return list(value)


def _read_search_providers(plugin: Any) -> dict[str, Any]:
    engines = getattr(plugin, "search_providers", {})
    if not isinstance(engines, dict) or not all(isinstance(name, str) and callable(make) for name, make in engines.items()):
        raise BadPlugin("its `search_providers` is not a dict of names to search engine factories")
    if taken := sorted(engines.keys() & PROVIDERS.keys()):
        raise BadPlugin(f"{taken[0]!r} is already a search engine")
    return dict(engines)


def _check_plugin(tools: list[Any], hooks: list[Any]) -> None:
    names: set[str] = set()
    for tool in tools:
        if not isinstance(tool, ToolFactory):
            raise BadPlugin(f"`tools` contains a {type(tool).__name__}: create tools with @tool")
        if not TOOL_NAME.fullmatch(tool.name):
            raise BadPlugin(f"invalid tool name {tool.name!r}")
        if tool.name in names:
            raise BadPlugin(f"duplicate tool name {tool.name!r}")
        names.add(tool.name)
    if not all(callable(hook) for hook in hooks):
        raise BadPlugin("`before_tool_call` contains an object that is not callable")
