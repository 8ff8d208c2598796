"""What is counted and traced of a request on a socket: how long its handler took, how it ended, in which trace."""

import functools
import time
from collections.abc import Iterator
from contextlib import contextmanager

from clawsite.gateway.protocol.frames import Request
from clawsite.infra.errors import ClawError, Unavailable
from clawsite.infra.observability import metrics, tracing

# Finding the series of some labels takes longer than counting; there are as many as methods and codes.
_requests = functools.cache(functools.partial(metrics.requests.labels, "socket"))
_seconds = metrics.request_seconds.labels("socket")


def count_request(method: str, code: str) -> None:
    _requests(method, code).inc()


@contextmanager
def observe_request(request: Request, method: str) -> Iterator[None]:
    """Around the handler. `method` is a declared one, so that the names stay few."""
    began, code = time.perf_counter(), "CANCELLED"  # the client has left
    with tracing.trace_request(method, request.traceparent, {"rpc.system": "clawsite", "rpc.method": method}) as span:
        try:
            yield
            code = "ok"
        except Exception as error:
            code = error.code if isinstance(error, ClawError) else Unavailable.code
            span.failed(code)
            raise
        finally:
            count_request(method, code)
            _seconds.observe(time.perf_counter() - began)
