"""Which search engine is used. A plugin adds its own to `PROVIDERS` when its app is ready."""

from collections.abc import Callable

from django.conf import settings

from tools_app.definition import Declined
from tools_app.search import brave, searxng
from tools_app.search.base import SearchProvider

# Each gives its provider, or None as long as its settings are not made. The order is that of preference.
PROVIDERS: dict[str, Callable[[], SearchProvider | None]] = {"searxng": searxng.configured, "brave": brave.configured}


def chosen() -> SearchProvider:
    """The one that the operator named, or the first that is configured; Declined says what to set where there is none."""
    named = settings.SEARCH_PROVIDER
    if named and named not in PROVIDERS:
        raise Declined(f"CLAWSITE_SEARCH_PROVIDER names an unknown search engine: `{named}`")
    for make in [PROVIDERS[named]] if named else PROVIDERS.values():
        if found := make():
            return found
    if named:
        raise Declined(f"CLAWSITE_SEARCH_PROVIDER names a search engine that is not configured: `{named}`")
    raise Declined("no search engine is configured: set CLAWSITE_SEARXNG_URL or BRAVE_API_KEY")
