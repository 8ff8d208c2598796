"""The client for URLs from untrusted sources: a model, a page, a user in a chat.

A name is resolved once, all its addresses are checked, and the connection uses exactly these, so DNS rebinding has no effect.
Host header and certificate use the name. Each redirect is a new request with new checks; headers that may hold credentials
are only sent to the first origin. Size limits apply after decompression.

It uses aiohttp because its resolver can be replaced (httpx has no such option; httpcore does, but importing it takes 0.3 s in
workers that load aiohttp for model streams anyway). aiohttp ignores proxies and netrc from the environment, keeps no cookies
between requests, and limits the header size. Its decompression and redirects are not used: neither enforces our limits.
URLs are never logged, because a query may hold a secret.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING

from clawsite.infra.fetch.addresses import Allowlist, IpAddress, parse_literal_address, why_not_public
from clawsite.infra.fetch.body import BadBody, ResponseBody
from clawsite.infra.fetch.targets import FetchDenied, FetchError, FetchFailed, FetchTarget, parse_target
from clawsite.infra.version import version

if TYPE_CHECKING:
    import aiohttp

__all__ = ["Allowlist", "FetchDenied", "FetchError", "FetchFailed", "FetchResponse", "fetch"]

logger = logging.getLogger(__name__)

MAX_BYTES = 5 * 1024 * 1024
TIMEOUT_S = 30.0
MAX_REDIRECTS = 3
MAX_HEADER_LINES = 128
MAX_HEADER_LINE = 8190  # bytes; together with MAX_HEADER_LINES this limits the header to 1 MB
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
# Any other header may be a credential, so it is sent only to the original origin.
CROSS_ORIGIN_HEADERS = frozenset({"accept", "accept-language", "user-agent"})


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """The final response with any status. `truncated` means that the body was cut at the limit."""

    url: str
    status: int
    headers: Mapping[str, str]  # names in lowercase
    body: bytes
    truncated: bool = False

    @property
    def content_type(self) -> str:
        """Lowercase, without parameters; "" if the server doesn't send one."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class _Request:
    target: FetchTarget
    method: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


async def fetch(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    max_bytes: int = MAX_BYTES,
    timeout_s: float = TIMEOUT_S,
    redirects: int = MAX_REDIRECTS,
    allow: Allowlist | None = None,
) -> FetchResponse:
    """Fetch a URL, or raise FetchDenied or FetchFailed. `allow` replaces the configured allowlist of internal hosts."""
    if allow is None:
        from django.conf import settings

        allow = settings.FETCH_ALLOW
    try:
        async with asyncio.timeout(timeout_s):
            request = _Request(parse_target(url), method, dict(headers or {}), body)
            for _ in range(redirects + 1):
                response = await _send_request(request, allow, max_bytes)
                location = response.headers.get("location")
                if response.status not in REDIRECT_STATUSES or not location:
                    return response
                request = _follow_redirect(request, response.status, parse_target(location, base=request.target.url))
            raise FetchDenied("redirect", f"the URL redirects more than {redirects} times")
    except FetchDenied as denied:
        logger.info("fetch denied by rule %s", denied.rule)
        raise
    except TimeoutError:
        raise FetchFailed(f"no complete response within {timeout_s:g} s") from None


def _follow_redirect(request: _Request, status: int, to: FetchTarget) -> _Request:
    """Build the redirected request as browsers do, without headers that another origin must not see."""
    source = request.target
    becomes_get = status == 303 or (status in (301, 302) and request.method == "POST")
    if becomes_get and request.method != "HEAD":
        headers = {name: value for name, value in request.headers.items() if not name.lower().startswith("content-")}
        request = replace(request, method="GET", body=b"", headers=headers)
    if to.origin == source.origin:
        return replace(request, target=to)
    safe_headers = {name: value for name, value in request.headers.items() if name.lower() in CROSS_ORIGIN_HEADERS}
    if source.url.scheme == "https" and to.url.scheme == "http" and (request.body or safe_headers != request.headers):
        raise FetchDenied("redirect", f"{source.host} redirects a request with credentials from https to http")
    if request.body:
        raise FetchDenied("redirect", f"{source.host} redirects the request's body to another server")
    return replace(request, target=to, headers=safe_headers)


async def _send_request(request: _Request, allow: Allowlist, max_bytes: int) -> FetchResponse:
    """Send one request and read its response."""
    import aiohttp  # the import takes 0.4 s, and an idle worker doesn't need it

    target = request.target
    addresses = await resolve_allowed(target, allow)
    headers = {"user-agent": f"Clawsite/{version()}", "accept": "*/*", **{k.lower(): v for k, v in request.headers.items()}}
    connector = aiohttp.TCPConnector(
        resolver=_static_resolver(addresses), use_dns_cache=False, force_close=True, ssl=tls_context() if _is_tls(target) else True
    )
    session = aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        max_line_size=MAX_HEADER_LINE,
        max_field_size=MAX_HEADER_LINE,
        max_headers=MAX_HEADER_LINES,
    )
    try:
        async with (
            session,
            session.request(
                request.method,
                target.url,
                headers=headers | {"accept-encoding": "gzip"},
                data=request.body or None,
                allow_redirects=False,
            ) as response,
        ):
            received = {name.lower(): ", ".join(response.headers.getall(name)) for name in response.headers}
            fetched = FetchResponse(str(target.url), response.status, received, b"")
            if response.status in REDIRECT_STATUSES and "location" in received:
                return fetched
            body = ResponseBody(received.get("content-encoding", ""), max_bytes)
            async for chunk in response.content.iter_any():
                if body.feed_until_full(chunk):
                    break
            return replace(fetched, body=body.finish(), truncated=body.truncated)
    except (aiohttp.ClientError, OSError, BadBody) as error:
        raise FetchFailed(_describe_error(error, target.host)) from error


async def resolve_allowed(target: FetchTarget, allow: Allowlist) -> Sequence[IpAddress]:
    """Return all addresses of the host. Deny the fetch if any of them is internal."""
    literal = parse_literal_address(target.host)
    addresses = [literal] if literal is not None else await resolve(target.host, target.port)
    if not addresses:
        raise FetchFailed(f"could not resolve {target.host}: no address found")
    for address in addresses:
        kind = why_not_public(address)
        if kind and not allow.allows(target.host, target.port, address):
            # Don't reveal the address: internal names must not be resolvable from outside.
            verb = "is" if literal else "resolves to"
            text = f"{target.host} {verb} {kind}; only public addresses can be fetched"
            raise FetchDenied("address", f"{text}. An operator can allow internal hosts with CLAWSITE_FETCH_ALLOW.")
    return addresses


async def resolve(host: str, port: int) -> list[IpAddress]:
    try:
        results = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise FetchFailed(f"the name {host} can't be resolved") from None
    return [ip_address(text) for text in dict.fromkeys(str(each[4][0]) for each in results)]


def _static_resolver(addresses: Sequence[IpAddress]) -> "aiohttp.abc.AbstractResolver":
    from aiohttp.abc import AbstractResolver, ResolveResult

    class AlreadyResolved(AbstractResolver):
        """Return the checked addresses without resolving again."""

        async def resolve(self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC) -> list[ResolveResult]:
            return [
                ResolveResult(
                    hostname=host,
                    host=str(address),
                    port=port,
                    family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                    proto=socket.IPPROTO_TCP,
                    flags=socket.AI_NUMERICHOST,
                )
                for address in addresses
            ]

        async def close(self) -> None: ...

    return AlreadyResolved()


def _is_tls(target: FetchTarget) -> bool:
    return target.url.scheme == "https"


@cache
def tls_context() -> ssl.SSLContext:
    """Use the system's trust store, as for model streams. The variable SSL_CERT_FILE replaces it."""
    return ssl.create_default_context()


def _describe_error(error: Exception, host: str) -> str:
    import aiohttp

    match error:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            cause = error.certificate_error if isinstance(error, aiohttp.ClientConnectorCertificateError) else error
            reason = getattr(cause, "verify_message", "") or "the TLS connection failed"
            return f"the certificate of {host} was not accepted: {reason}"
        case aiohttp.ClientConnectorError():
            return f"no connection to {host}: {error.os_error.strerror or 'it did not respond'}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | aiohttp.ClientOSError():
            return f"{host} closed the connection before the response was complete"
        case aiohttp.ClientResponseError():
            return f"{host} sent an invalid HTTP response"
        case BadBody():
            return f"the response of {host} can't be read: {error}"
    return f"the connection to {host} failed"
