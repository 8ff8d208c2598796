"""Plugins: distributions with an entry point in the group `clawsite.plugins`. Off until an operator enables them.

An entry point leads to a module or object with one or more of these:

    tools = [make_forecast]                       # made by our @tool
    before_tool_call = [check_address]            # hooks, see tools_app.core.plugin_hooks
    search_providers = {"acme": configured}       # engines for web_search, see tools_app.search

Installed plugins are found by their metadata; no code of theirs runs before an operator tries to enable them. One that cannot
be used is shown with its error and left out: it never stops a process or a run. Only where it looked at calls before, or may
want to once its import has ended, none is made now.
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
IMPORT_TIMEOUT_SECONDS = 30.0  # for those who can wait: a worker before its first run, an operator who enables one
IMPORT_WAIT_SECONDS = 1.0  # for everybody else who meets a plugin that is just being imported
IMPORT_UNFINISHED = "its import has not ended yet"
MAX_ERROR_LENGTH = 500

P = ParamSpec("P")
R = TypeVar("R")


class BadPlugin(Exception):
    """It offers what cannot be used. The message is for the operator."""


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    name: str
    package: str
    version: str


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """What an enabled plugin brings; with an `error`, nothing."""

    name: str
    tools: tuple[ToolFactory, ...] = ()
    before_tool_call: tuple[Callable[..., Any], ...] = ()
    search_providers: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    error: str = ""


def find_entry_points() -> dict[str, EntryPoint]:
    """By name, from metadata only. Of two with the same name the first on the path counts."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        found.setdefault(point.name, point)
    return found


def list_installed() -> list[InstalledPlugin]:
    """What is installed, with its package and version."""
    return [
        InstalledPlugin(name, point.dist.name if point.dist else "", point.dist.version if point.dist else "")
        for name, point in find_entry_points().items()
    ]


@transaction.atomic
def record_plugins(found: Iterable[InstalledPlugin], loaded: Iterable[LoadedPlugin]) -> None:
    """Bring the rows in step with what is installed and with what enabling it brought. Written where it differs only.

    A plugin that is gone keeps its row and its switch, and says so.
    """
    rows = {row.name: row for row in Plugin.objects.all()}
    results = {each.name: each for each in loaded}
    for each in found:
        row = rows.pop(each.name, None) or Plugin(name=each.name[:64])
        result = results.get(each.name, LoadedPlugin(each.name))
        error = make_storable(result.error)[:MAX_ERROR_LENGTH] if row.enabled else ""
        # What it had when it could last be loaded: policies may name its tools, and missing hooks must not go unnoticed.
        is_there = row.enabled and not error
        tools = [tool.name for tool in result.tools] if is_there else row.tools
        has_hooks = bool(result.before_tool_call) if is_there else row.has_hooks
        now = (each.package[:200], each.version[:64], tools, has_hooks, error)
        if row.pk is None or not row.seen_at or (row.package, row.version, row.tools, row.has_hooks, row.error) != now:
            row.package, row.version, row.tools, row.has_hooks, row.error = now
            row.seen_at = clock.now()
            row.save(update_fields=None if row.pk is None else ["package", "version", "tools", "has_hooks", "error", "seen_at"])
    for row in rows.values():
        Plugin.objects.filter(pk=row.pk).update(seen_at=None, error="it is not installed any more")


def list_enabled() -> list[str]:
    return list(Plugin.objects.filter(enabled=True).values_list("name", flat=True))


class _PluginImport:
    """One plugin on a thread of its own, because an import that hangs cannot be interrupted, only left behind."""

    def __init__(self, name: str) -> None:
        self.began = time.monotonic()
        self.over = threading.Event()
        self.outcome = LoadedPlugin(name, error=IMPORT_UNFINISHED)
        threading.Thread(target=self._run, name=f"plugin {name}", daemon=True).start()

    def _run(self) -> None:
        self.outcome = _load_plugin(self.outcome.name)
        if self.outcome.error:
            log.warning("plugin %s is left out: %s", self.outcome.name, self.outcome.error)
        self.over.set()


_imports: dict[str, _PluginImport] = {}  # of this process; only a restart tries again
_imports_lock = threading.Lock()


def import_plugins(names: Iterable[str], patience: float) -> frozenset[str]:
    """Import what is not imported yet; -> those whose import is over, well or not.

    Waits until each has had so many seconds since it began, not longer: threads that many share come by here. What ends
    later is there from then on.
    """
    with _imports_lock:
        imports = {name: _imports.get(name) or _imports.setdefault(name, _PluginImport(name)) for name in names}
    for each in imports.values():
        each.over.wait(max(0.0, each.began + patience - time.monotonic()))
    return frozenset(name for name, each in imports.items() if each.over.is_set())


def require_imported(names: Iterable[str]) -> None:
    """Before the transaction of a change that is judged by what these bring. Unavailable while one is still being imported."""
    names = list(names)
    if unfinished := sorted(set(names) - import_plugins(names, IMPORT_TIMEOUT_SECONDS)):
        words = _("%(plugins)s: still being imported. Try again in a moment, or disable it.")
        raise Unavailable(words % {"plugins": ", ".join(unfinished)}, retryable=True)


def requires_plugins(change: Callable[P, R]) -> Callable[P, R]:
    """A change in one transaction, that begins when every enabled plugin is there: it is judged by what they bring."""

    @functools.wraps(change)
    def changed(*args: P.args, **kwargs: P.kwargs) -> R:
        require_imported(list_enabled())
        with transaction.atomic():
            return change(*args, **kwargs)

    return changed


def get_loaded(name: str) -> LoadedPlugin:
    """What became of a plugin. Neither waits nor raises."""
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
    except BaseException as error:  # whatever code of others raises at its import, sys.exit() included
        return LoadedPlugin(name, error=f"{type(error).__name__}: {error}")


def _read_list(plugin: Any, what: str) -> list[Any]:
    value = getattr(plugin, what, [])
    if not isinstance(value, list | tuple):
        raise BadPlugin(f"its `{what}` is no list")
    return list(value)


def _read_search_providers(plugin: Any) -> dict[str, Any]:
    engines = getattr(plugin, "search_providers", {})
    if not isinstance(engines, dict) or not all(isinstance(name, str) and callable(make) for name, make in engines.items()):
        raise BadPlugin("its `search_providers` is no dict from names to what makes a search engine")
    if taken := sorted(engines.keys() & PROVIDERS.keys()):
        raise BadPlugin(f"{taken[0]!r} is a search engine already")
    return dict(engines)


def _check_plugin(tools: list[Any], hooks: list[Any]) -> None:
    names: set[str] = set()
    for tool in tools:
        if not isinstance(tool, ToolFactory):
            raise BadPlugin(f"`tools` has a {type(tool).__name__}: make tools with @tool")
        if not TOOL_NAME.fullmatch(tool.name) or tool.name in names:
            raise BadPlugin(f"{tool.name!r} is no name for a tool, or there twice")
        names.add(tool.name)
    if not all(callable(hook) for hook in hooks):
        raise BadPlugin("`before_tool_call` has something that cannot be called")
