"""Which search engine is used. A plugin adds its own to `PROVIDERS` when its app is ready."""

import logging
from collections.abc import Callable

from django.conf import settings

from tools_app.search import brave, searxng
from tools_app.search.base import SearchProvider

logger = logging.getLogger(__name__)

# Each gives its provider, or None as long as its settings are not made. The order is that of preference.
PROVIDERS: dict[str, Callable[[], SearchProvider | None]] = {"searxng": searxng.configured, "brave": brave.configured}


def chosen() -> SearchProvider | None:
    """The one that the operator named, or the first that is configured."""
    named = settings.SEARCH_PROVIDER
    if not named:
        return next(filter(None, (make() for make in PROVIDERS.values())), None)
    if named not in PROVIDERS:
        logger.warning("CLAWSITE_SEARCH_PROVIDER names %r; known are %s. There is no web_search.", named, ", ".join(PROVIDERS))
        return None
    return PROVIDERS[named]()
