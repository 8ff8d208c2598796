"""Which search engine is used: one of ours, or one that an enabled plugin brings (tools_app.sources.plugins)."""

import logging
from collections.abc import Callable, Mapping

from django.conf import settings

from tools_app.core.definition import ToolUnavailable
from tools_app.web_search import brave, searxng
from tools_app.web_search.base import SearchProvider

log = logging.getLogger(__name__)

# Each gives its provider, or None as long as its settings are not made. The order is that of preference.
ProviderFactory = Callable[[], SearchProvider | None]
PROVIDERS: dict[str, ProviderFactory] = {"searxng": searxng.make_configured, "brave": brave.make_configured}
NO_PLUGIN_PROVIDERS: Mapping[str, ProviderFactory] = {}


def choose_provider(brought: Mapping[str, ProviderFactory] = NO_PLUGIN_PROVIDERS) -> SearchProvider:
    """The one that the operator named, or the first that is configured, ours before those that plugins have brought.

    Declined says what to set where there is none.
    """
    named, known = settings.SEARCH_PROVIDER, {**brought, **PROVIDERS}
    if named and named not in known:
        raise ToolUnavailable(f"CLAWSITE_SEARCH_PROVIDER names an unknown search engine: `{named}`")
    for name in [named] if named else [*PROVIDERS, *brought]:
        if found := _make_provider(name, known[name]):
            return found
    if named:
        raise ToolUnavailable(f"CLAWSITE_SEARCH_PROVIDER names a search engine that is not configured: `{named}`")
    raise ToolUnavailable("no search engine is configured: set CLAWSITE_SEARXNG_URL or BRAVE_API_KEY")


def _make_provider(name: str, configured: ProviderFactory) -> SearchProvider | None:
    """A plugin's mistake costs its search engine, never the run."""
    try:
        return configured()
    except Exception as fault:
        log.warning("the search engine %s cannot be used", name, exc_info=fault)
        return None
