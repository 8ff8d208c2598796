"""The one client for URLs that somebody else chose: a model, a page, a person in a chat.

A name is resolved once, all its addresses are checked, and the connection goes to exactly these, so that a name server which
answers differently the next moment changes nothing. Host header and certificate go by the name. Each redirect is a new
request and is checked anew; what the caller sends along privately stays with the first origin. Bytes count after decompression.

aiohttp carries it, because its resolver is a public seam (httpx has none; its engine httpcore would do, and cost 0.3 s of import
in workers that have aiohttp for the model streams anyway). It reads no proxy and no netrc from the environment, keeps no cookies
from one hop to the next, and bounds the header. Its own decompression and redirects are not used: neither has our limits.
Nothing here logs a URL, since a query may hold a secret.
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
MAX_HEADER_LINE = 8190  # bytes; with the lines' number the header has 1 MB at most
REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
# All else that a caller sends along may be a credential under some name or other, and stays with the origin it is for.
CROSS_ORIGIN_HEADERS = frozenset({"accept", "accept-language", "user-agent"})


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """The last answer, whatever its status. With `truncated` the body ends at the cap."""

    url: str
    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    truncated: bool = False

    @property
    def content_type(self) -> str:
        """Without parameters and in lower case; "" when the server does not say."""
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
    """Fetch a URL, or FetchRefused, or FetchFailed. `allow` replaces the operator's list of internal hosts for this fetch."""
    if allow is None:
        from django.conf import settings

        allow = settings.FETCH_ALLOW
    try:
        async with asyncio.timeout(timeout_s):
            request = _Request(parse_target(url), method, dict(headers or {}), body)
            for _ in range(redirects + 1):
                answer = await _send_request(request, allow, max_bytes)
                location = answer.headers.get("location")
                if answer.status not in REDIRECT_STATUSES or not location:
                    return answer
                request = _follow_redirect(request, answer.status, parse_target(location, base=request.target.url))
            raise FetchDenied("redirect", f"the URL redirects more than {redirects} times")
    except FetchDenied as refused:
        logger.info("a fetch was refused by rule %s", refused.rule)
        raise
    except TimeoutError:
        raise FetchFailed(f"there was no complete answer within {timeout_s:g} s") from None


def _follow_redirect(request: _Request, status: int, to: FetchTarget) -> _Request:
    """The request that follows, as browsers do it, less what another origin must not see."""
    before = request.target
    turned = status == 303 or (status in (301, 302) and request.method == "POST")
    if turned and request.method != "HEAD":
        kept = {name: value for name, value in request.headers.items() if not name.lower().startswith("content-")}
        request = replace(request, method="GET", body=b"", headers=kept)
    if to.origin == before.origin:
        return replace(request, target=to)
    harmless = {name: value for name, value in request.headers.items() if name.lower() in CROSS_ORIGIN_HEADERS}
    if before.url.scheme == "https" and to.url.scheme == "http" and (request.body or harmless != request.headers):
        raise FetchDenied("redirect", f"{before.host} redirects from https to http a request that carries credentials")
    if request.body:
        raise FetchDenied("redirect", f"{before.host} wants the request's body sent to another server")
    return replace(request, target=to, headers=harmless)


async def _send_request(request: _Request, allow: Allowlist, max_bytes: int) -> FetchResponse:
    """One request and its answer."""
    import aiohttp  # 0.4 s, and a worker that only waits does not need it

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
            found = {name.lower(): ", ".join(response.headers.getall(name)) for name in response.headers}
            answer = FetchResponse(str(target.url), response.status, found, b"")
            if response.status in REDIRECT_STATUSES and "location" in found:
                return answer
            body = ResponseBody(found.get("content-encoding", ""), max_bytes)
            async for chunk in response.content.iter_any():
                if body.feed_until_full(chunk):
                    break
            return replace(answer, body=body.finish(), truncated=body.truncated)
    except (aiohttp.ClientError, OSError, BadBody) as error:
        raise FetchFailed(_describe_error(error, target.host)) from error


async def resolve_allowed(target: FetchTarget, allow: Allowlist) -> Sequence[IpAddress]:
    """All addresses of the host, none of which may be internal: one bad one among them refuses the whole."""
    spelled = parse_literal_address(target.host)
    addresses = [spelled] if spelled is not None else await resolve(target.host, target.port)
    if not addresses:
        raise FetchFailed(f"the name {target.host} has no address")
    for address in addresses:
        kind = why_not_public(address)
        if kind and not allow.opens(target.host, target.port, address):
            # Which address it is stays unsaid: what internal names lead to is nobody's business outside.
            leads = "is" if spelled else "leads to"
            words = f"{target.host} {leads} {kind}, and only public addresses are fetched"
            raise FetchDenied("address", f"{words}. An operator can open an internal host with CLAWSITE_FETCH_ALLOW.")
    return addresses


async def resolve(host: str, port: int) -> list[IpAddress]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        raise FetchFailed(f"the name {host} cannot be resolved") from None
    return [ip_address(text) for text in dict.fromkeys(str(each[4][0]) for each in found)]


def _static_resolver(addresses: Sequence[IpAddress]) -> "aiohttp.abc.AbstractResolver":
    from aiohttp.abc import AbstractResolver, ResolveResult

    class AlreadyResolved(AbstractResolver):
        """Gives the checked addresses to whoever asks, and asks nobody."""

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
    """The system's trust store, as for the model streams; the variable SSL_CERT_FILE names another."""
    return ssl.create_default_context()


def _describe_error(error: Exception, host: str) -> str:
    import aiohttp

    match error:
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            cause = error.certificate_error if isinstance(error, aiohttp.ClientConnectorCertificateError) else error
            reason = getattr(cause, "verify_message", "") or "no secure connection could be made"
            return f"the certificate of {host} was not accepted: {reason}"
        case aiohttp.ClientConnectorError():
            return f"no connection to {host}: {error.os_error.strerror or 'it did not answer'}"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientPayloadError() | aiohttp.ClientOSError():
            return f"{host} broke off in mid-answer"
        case aiohttp.ClientResponseError():
            return f"{host} did not answer in proper HTTP"
        case BadBody():
            return f"the answer of {host} cannot be read: {error}"
    return f"the connection to {host} failed"
