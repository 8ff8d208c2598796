"""Choose the search engine: a built-in one, or one from an enabled plugin (tools_app.sources.plugins)."""

import logging
from collections.abc import Callable, Mapping

from django.conf import settings

from clawsite.infra.reasons import Reason
from tools_app.core.definition import ToolUnavailable
from tools_app.web_search import brave, searxng
from tools_app.web_search.base import SearchProvider

log = logging.getLogger(__name__)

# Each factory returns its provider, or None if it isn't configured. In order of preference.
ProviderFactory = Callable[[], SearchProvider | None]
PROVIDERS: dict[str, ProviderFactory] = {"searxng": searxng.make_configured, "brave": brave.make_configured}
NO_PLUGIN_PROVIDERS: Mapping[str, ProviderFactory] = {}


def choose_provider(from_plugins: Mapping[str, ProviderFactory] = NO_PLUGIN_PROVIDERS) -> SearchProvider:
    """Return the provider named in the settings, or the first configured one, built-in providers first.

    If there is none, the reason of ToolUnavailable says what to set.
    """
    named, known = settings.SEARCH_PROVIDER, {**from_plugins, **PROVIDERS}
    if named and named not in known:
        raise ToolUnavailable(Reason("tool.search_engine_unknown", name=named))
    for name in [named] if named else [*PROVIDERS, *from_plugins]:
        if provider := _make_provider(name, known[name]):
            return provider
    if named:
        raise ToolUnavailable(Reason("tool.search_engine_not_configured", name=named))
    raise ToolUnavailable(Reason("tool.no_search_engine"))


def _make_provider(name: str, factory: ProviderFactory) -> SearchProvider | None:
    """Create the provider. An error in a plugin makes its search engine unavailable but doesn't fail the run."""
    try:
        return factory()
    except Exception as error:
        log.warning("search engine %s is unavailable", name, exc_info=error)
        return None
