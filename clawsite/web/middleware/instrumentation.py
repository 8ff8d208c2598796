"""Metrics and traces of HTTP requests: route (never the full URL), duration, status and trace context."""

import functools
import time
from collections.abc import Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.utils.decorators import sync_and_async_middleware

from clawsite.infra.observability import metrics, tracing
from clawsite.infra.observability.tracing import Span

HTTP_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNTRACED_PATHS = ("/healthz", "/readyz", "/metrics", "/static/")  # requested constantly, so not worth measuring

# Cached because looking up a labeled series takes longer than incrementing it; one per route and status.
_requests = functools.cache(functools.partial(metrics.requests.labels, "http"))
_seconds = metrics.request_seconds.labels("http")


@sync_and_async_middleware
def observing_middleware(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Must be the first middleware, so that rejections by the others are counted too."""
    if iscoroutinefunction(get_response):

        async def respond_async(request: HttpRequest) -> Any:
            started_at = time.perf_counter()
            if request.path.startswith(UNTRACED_PATHS):
                return _record_response(request, await get_response(request), started_at)
            with tracing.trace_request(_http_method(request), request.headers.get("traceparent")) as span:
                return _record_response(request, await get_response(request), started_at, span)

        return respond_async

    def respond(request: HttpRequest) -> Any:
        started_at = time.perf_counter()
        with tracing.trace_request(_http_method(request), request.headers.get("traceparent")) as span:
            return _record_response(request, get_response(request), started_at, span)

    return respond


def _record_response(request: HttpRequest, response: Any, started_at: float, span: Span | None = None) -> Any:
    name, status = f"{_http_method(request)} {_route(request)}", response.status_code
    _requests(name, status).inc()
    _seconds.observe(time.perf_counter() - started_at)
    if status == 429:
        metrics.rate_limited.labels("http").inc()
    if span:
        span.rename(name)
        span.set_attributes(
            {"http.request.method": _http_method(request), "http.route": _route(request), "http.response.status_code": status}
        )
        if status >= 500:
            span.set_failed(str(status))
    return response


def _http_method(request: HttpRequest) -> str:
    return request.method if request.method in HTTP_METHODS else "OTHER"


def _route(request: HttpRequest) -> str:
    """Return the declared route, or "other" for paths without one, such as static files and scans."""
    match = request.resolver_match
    return f"/{match.route.lstrip('^')}" if match else "other"
