"""All suites by name."""

from collections.abc import Callable, Coroutine
from typing import Any

from bench.gateway.figures import Result
from bench.gateway.options import Options
from bench.gateway.suites import faults, http, load, many_clients, methods, restarts, startup

Suite = Callable[[Options], Coroutine[Any, Any, Result]]

SUITES: dict[str, Suite] = {
    "coldstart": startup.coldstart,
    "first_run": startup.first_run,
    "connect": startup.connect,
    "overhead": load.overhead,
    "throughput": load.throughput,
    "fanout": load.fanout,
    "idle": many_clients.idle,
    "storm": many_clients.storm,
    "methods": methods.methods,
    "create": methods.create,
    "http": http.http,
    "http_many": http.http_many,
    "faults": faults.faults,
    "rss": startup.rss,
    "crash": restarts.crash,
    "approval": restarts.approval,
}
