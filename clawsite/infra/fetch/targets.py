"""Parse a URL and check its scheme, host name and port. Addresses are checked when the name is resolved.

yarl parses the URL for both the check and the request, so the two can't disagree. It is imported on first use, so that
aiohttp's dependencies don't slow down startup.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clawsite.infra.fetch.addresses import normalize_host

if TYPE_CHECKING:
    from yarl import URL

MAX_URL = 8000  # characters; many servers limit URLs to 8 KB
CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")
# Remote shells, mail and chat: no web server uses these ports, and some of these services read an HTTP request as commands.
DENIED_PORTS = frozenset({22, 23, 25, 110, 143, 465, 587, 993, 995, 6667, 6697})


class FetchError(Exception):
    """Base class of errors that end a fetch without a response. The message is for the model or the operator."""


class FetchDenied(FetchError):
    """A rule denies it; retrying won't help. `rule` is url, scheme, credentials, host, port, address or redirect."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


class FetchFailed(FetchError):
    """The fetch was allowed but failed: unknown name, timeout, broken response."""


@dataclass(frozen=True, slots=True)
class FetchTarget:
    """A checked URL. `host` is the normalized name used for resolution, the Host header and the certificate."""

    url: "URL"
    host: str
    port: int

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.url.scheme, self.host, self.port


def parse_target(text: str, *, base: "URL | None" = None) -> FetchTarget:
    """Check a URL; with `base` it may be relative, as in a redirect."""
    from yarl import URL

    if len(text) > MAX_URL:
        raise FetchDenied("url", f"the URL exceeds {MAX_URL} characters")
    if CONTROL_CHARACTERS.search(text.strip()):
        raise FetchDenied("url", "the URL contains control characters")
    try:
        url = URL(text.strip())
        url = (base.join(url) if base else url).with_fragment(None)
        raw_host, port = url.raw_host, url.port
    except ValueError:  # don't pass the parser's message on: it may repeat the URL
        raise FetchDenied("url", "that is not a valid URL") from None
    if url.scheme not in ("http", "https"):
        raise FetchDenied("scheme", "only http:// and https:// URLs can be fetched")
    if url.user is not None or url.password is not None:
        raise FetchDenied("credentials", "URLs with a username or password can't be fetched: remove that part")
    if not raw_host:
        raise FetchDenied("host", "the URL has no host")
    try:
        host = normalize_host(raw_host)
    except ValueError as error:
        raise FetchDenied("host", f"invalid host in the URL: {error}") from None
    if not port or port in DENIED_PORTS:
        raise FetchDenied("port", f"port {port} is not a web port")
    return FetchTarget(url if host == raw_host else url.with_host(host), host, port)
