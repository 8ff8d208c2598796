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
from clawsite.infra.text import storable
from tools_app.core.definition import TOOL_NAME, ToolFactory
from tools_app.models import Plugin
from tools_app.web_search.registry import PROVIDERS

log = logging.getLogger(__name__)

GROUP = "clawsite.plugins"
IMPORT_SECONDS = 30.0  # for those who can wait: a worker before its first run, an operator who enables one
PATIENCE_SECONDS = 1.0  # for everybody else who meets a plugin that is just being imported
UNFINISHED = "its import has not ended yet"
MAX_ERROR = 500

P = ParamSpec("P")
R = TypeVar("R")


class BadPlugin(Exception):
    """It offers what cannot be used. The message is for the operator."""


@dataclass(frozen=True, slots=True)
class Seen:
    name: str
    package: str
    version: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """What an enabled plugin brings; with an `error`, nothing."""

    name: str
    tools: tuple[ToolFactory, ...] = ()
    before_tool_call: tuple[Callable[..., Any], ...] = ()
    search_providers: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    error: str = ""


def installed_plugins() -> dict[str, EntryPoint]:
    """By name, from metadata only. Of two with the same name the first on the path counts."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, point)
    return found


def seen() -> list[Seen]:
    """What is installed, with its package and version."""
    return [
        Seen(name, point.dist.name if point.dist else "", point.dist.version if point.dist else "")
        for name, point in installed_plugins().items()
    ]


@transaction.atomic
def note(found: Iterable[Seen], loaded: Iterable[Loaded]) -> None:
    """Bring the rows in step with what is installed and with what enabling it brought. Written where it differs only.

    A plugin that is gone keeps its row and its switch, and says so.
    """
    rows = {row.name: row for row in Plugin.objects.all()}
    results = {each.name: each for each in loaded}
    for each in found:
        row = rows.pop(each.name, None) or Plugin(name=each.name[:64])
        result = results.get(each.name, Loaded(each.name))
        error = storable(result.error)[:MAX_ERROR] if row.enabled else ""
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


def enabled_names() -> list[str]:
    return list(Plugin.objects.filter(enabled=True).values_list("name", flat=True))


class _Import:
    """One plugin on a thread of its own, because an import that hangs cannot be interrupted, only left behind."""

    def __init__(self, name: str) -> None:
        self.began = time.monotonic()
        self.over = threading.Event()
        self.outcome = Loaded(name, error=UNFINISHED)
        threading.Thread(target=self._run, name=f"plugin {name}", daemon=True).start()

    def _run(self) -> None:
        self.outcome = _load(self.outcome.name)
        if self.outcome.error:
            log.warning("plugin %s is left out: %s", self.outcome.name, self.outcome.error)
        self.over.set()


_imports: dict[str, _Import] = {}  # of this process; only a restart tries again
_beginning = threading.Lock()


def imported(names: Iterable[str], patience: float) -> frozenset[str]:
    """Import what is not imported yet; -> those whose import is over, well or not.

    Waits until each has had so many seconds since it began, not longer: threads that many share come by here. What ends
    later is there from then on.
    """
    with _beginning:
        imports = {name: _imports.get(name) or _imports.setdefault(name, _Import(name)) for name in names}
    for each in imports.values():
        each.over.wait(max(0.0, each.began + patience - time.monotonic()))
    return frozenset(name for name, each in imports.items() if each.over.is_set())


def ready(names: Iterable[str]) -> None:
    """Before the transaction of a change that is judged by what these bring. Unavailable while one is still being imported."""
    names = list(names)
    if unfinished := sorted(set(names) - imported(names, IMPORT_SECONDS)):
        words = _("%(plugins)s: still being imported. Try again in a moment, or disable it.")
        raise Unavailable(words % {"plugins": ", ".join(unfinished)}, retryable=True)


def with_plugins(change: Callable[P, R]) -> Callable[P, R]:
    """A change in one transaction, that begins when every enabled plugin is there: it is judged by what they bring."""

    @functools.wraps(change)
    def changed(*args: P.args, **kwargs: P.kwargs) -> R:
        ready(enabled_names())
        with transaction.atomic():
            return change(*args, **kwargs)

    return changed


def loaded(name: str) -> Loaded:
    """What became of a plugin. Neither waits nor raises."""
    begun = _imports.get(name)
    return begun.outcome if begun else Loaded(name, error=UNFINISHED)


def _load(name: str) -> Loaded:
    try:
        point = installed_plugins().get(name)
        if point is None:
            raise BadPlugin("it is not installed")
        offered = point.load()
        tools, hooks = _offered(offered, "tools"), _offered(offered, "before_tool_call")
        engines = _engines(offered)
        if not tools and not hooks and not engines:
            raise BadPlugin("it offers neither `tools` nor `before_tool_call` nor `search_providers`")
        _check(tools, hooks)
        return Loaded(name, tuple(tools), tuple(hooks), engines)
    except BadPlugin as bad:
        return Loaded(name, error=str(bad))
    except BaseException as error:  # whatever code of others raises at its import, sys.exit() included
        return Loaded(name, error=f"{type(error).__name__}: {error}")


def _offered(plugin: Any, what: str) -> list[Any]:
    value = getattr(plugin, what, [])
    if not isinstance(value, list | tuple):
        raise BadPlugin(f"its `{what}` is no list")
    return list(value)


def _engines(plugin: Any) -> dict[str, Any]:
    engines = getattr(plugin, "search_providers", {})
    if not isinstance(engines, dict) or not all(isinstance(name, str) and callable(make) for name, make in engines.items()):
        raise BadPlugin("its `search_providers` is no dict from names to what makes a search engine")
    if taken := sorted(engines.keys() & PROVIDERS.keys()):
        raise BadPlugin(f"{taken[0]!r} is a search engine already")
    return dict(engines)


def _check(tools: list[Any], hooks: list[Any]) -> None:
    names: set[str] = set()
    for tool in tools:
        if not isinstance(tool, ToolFactory):
            raise BadPlugin(f"`tools` has a {type(tool).__name__}: make tools with @tool")
        if not TOOL_NAME.fullmatch(tool.name) or tool.name in names:
            raise BadPlugin(f"{tool.name!r} is no name for a tool, or there twice")
        names.add(tool.name)
    if not all(callable(hook) for hook in hooks):
        raise BadPlugin("`before_tool_call` has something that cannot be called")
