"""Headers that every answer carries, files included: what a page of ours may load, call and be embedded in.

Nothing inline and nothing foreign. A remote image in an answer would be a way to carry data out, so there are none.
"""

from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest
from django.http.response import HttpResponseBase

PERMISSIONS_POLICY = "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"

GetResponse = Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]


class ContentSecurityPolicyMiddleware:
    """Django's SecurityMiddleware adds the rest: nosniff, referrer, opener policy, HSTS."""

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
    """A view that needs another policy sets its own header, which stays."""
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
    """Some browsers do not count a WebSocket to the page's own origin as 'self', so it is named."""
    try:
        return f" {'wss' if request.is_secure() else 'ws'}://{request.get_host()}"
    except DisallowedHost:  # answered with 400, and not to be echoed
        return ""
