"""Metrics and traces of socket requests: duration, result code and trace context."""

import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager

from clawsite.gateway.protocol.frames import Request
from clawsite.infra.errors import ClawError, Unavailable
from clawsite.infra.observability import metrics, tracing

# Cached, because looking up a labeled series takes longer than counting. There is one per method and code.
_requests = functools.cache(functools.partial(metrics.requests.labels, "socket"))
_seconds = metrics.request_seconds.labels("socket")


def count_request(method: str, code: str) -> None:
    _requests(method, code).inc()


@contextmanager
def observe_request(request: Request, method: str) -> Iterator[None]:
    """Wrap a handler. `method` must be a declared name, which limits the number of labels."""
    began, code = time.perf_counter(), "CANCELLED"  # the client disconnected
    with tracing.trace_request(method, request.traceparent, {"rpc.system": "clawsite", "rpc.method": method}) as span:
        try:
            yield
            code = "ok"
        except Exception as error:
            code = error.code if isinstance(error, ClawError) else Unavailable.code
            span.set_failed(code)
            raise
        finally:
            count_request(method, code)
            _seconds.observe(time.perf_counter() - began)
