"""Security headers for every response, files included: what a page may load, connect to and be embedded in.

Inline and third-party content is blocked. Remote images are blocked because a model's answer could use them to leak data.
"""

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest
from django.http.response import HttpResponseBase

PERMISSIONS_POLICY = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"

GetResponse = Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]


class ContentSecurityPolicyMiddleware:
    """Django's SecurityMiddleware adds the other headers: nosniff, referrer, opener policy, HSTS."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        response = self.get_response(request)
        if isinstance(response, HttpResponseBase):
            return add_headers(request, response)
        return self._add_headers_async(request, response)

    async def _add_headers_async(self, request: HttpRequest, response: Awaitable[HttpResponseBase]) -> HttpResponseBase:
        return add_headers(request, await response)


def add_headers(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Add the headers, except those the view has already set."""
    response.headers.setdefault("Content-Security-Policy", build_policy(request))
    response.headers.setdefault("Permissions-Policy", PERMISSIONS_POLICY)
    response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
    return response


def build_policy(request: HttpRequest) -> str:
    return (
        "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        f"connect-src 'self'{_socket_source(request)}; object-src 'none'; base-uri 'none'; "
        "frame-ancestors 'none'; form-action 'self'"
    )


def _socket_source(request: HttpRequest) -> str:
    """Name the WebSocket origin, because some browsers don't include it in 'self'."""
    try:
        return f" {'wss' if request.is_secure() else 'ws'}://{request.get_host()}"
    except DisallowedHost:  # rejected with 400; don't echo the host
        return ""
