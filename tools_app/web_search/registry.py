"""Which search engine is used: one of ours, or one that an enabled plugin brings (tools_app.sources.plugins)."""

import logging
from collections.abc import Callable, Mapping

from django.conf import settings

from tools_app.core.definition import Declined
from tools_app.web_search import brave, searxng
from tools_app.web_search.base import SearchProvider

log = logging.getLogger(__name__)

# Each gives its provider, or None as long as its settings are not made. The order is that of preference.
Configured = Callable[[], SearchProvider | None]
PROVIDERS: dict[str, Configured] = {"searxng": searxng.configured, "brave": brave.configured}
NONE_BROUGHT: Mapping[str, Configured] = {}


def chosen(brought: Mapping[str, Configured] = NONE_BROUGHT) -> SearchProvider:
    """The one that the operator named, or the first that is configured, ours before those that plugins have brought.

    Declined says what to set where there is none.
    """
    named, known = settings.SEARCH_PROVIDER, {**brought, **PROVIDERS}
    if named and named not in known:
        raise Declined(f"CLAWSITE_SEARCH_PROVIDER names an unknown search engine: `{named}`")
    for name in [named] if named else [*PROVIDERS, *brought]:
        if found := _made(name, known[name]):
            return found
    if named:
        raise Declined(f"CLAWSITE_SEARCH_PROVIDER names a search engine that is not configured: `{named}`")
    raise Declined("no search engine is configured: set CLAWSITE_SEARXNG_URL or BRAVE_API_KEY")


def _made(name: str, configured: Configured) -> SearchProvider | None:
    """A plugin's mistake costs its search engine, never the run."""
    try:
        return configured()
    except Exception as fault:
        log.warning("the search engine %s cannot be used", name, exc_info=fault)
        return None
