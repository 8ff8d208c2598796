"""What is counted and traced of an HTTP request: its route, never its address; how long it took, how it ended, in which trace."""

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
UNTRACED_PATHS = ("/healthz", "/readyz", "/metrics", "/static/")  # asked all the time, and nothing follows from them

# Finding the series of some labels takes longer than counting; there are as many as routes and statuses.
_requests = functools.cache(functools.partial(metrics.requests.labels, "http"))
_seconds = metrics.request_seconds.labels("http")


@sync_and_async_middleware
def observing_middleware(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Before all others, so that their refusals are seen too."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> Any:
            began = time.perf_counter()
            if request.path.startswith(UNTRACED_PATHS):
                return _record_response(request, await get_response(request), began)
            with tracing.trace_request(_http_method(request), request.headers.get("traceparent")) as span:
                return _record_response(request, await get_response(request), began, span)

        return answer_later

    def answer(request: HttpRequest) -> Any:
        began = time.perf_counter()
        with tracing.trace_request(_http_method(request), request.headers.get("traceparent")) as span:
            return _record_response(request, get_response(request), began, span)

    return answer


def _record_response(request: HttpRequest, response: Any, began: float, span: Span | None = None) -> Any:
    name, status = f"{_http_method(request)} {_route(request)}", response.status_code
    _requests(name, status).inc()
    _seconds.observe(time.perf_counter() - began)
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
    """As it is declared. What no route has, such as a file or a guess, is one thing."""
    found = request.resolver_match
    return f"/{found.route.lstrip('^')}" if found else "other"
