"""Every suite by its name."""

from collections.abc import Callable, Coroutine
from typing import Any

from bench.gateway.figures import Result
from bench.gateway.options import Options
from bench.gateway.suites import crowds, faults, http, load, methods, restarts, starting

Suite = Callable[[Options], Coroutine[Any, Any, Result]]

SUITES: dict[str, Suite] = {
    "coldstart": starting.coldstart,
    "connect": starting.connect,
    "overhead": load.overhead,
    "throughput": load.throughput,
    "fanout": load.fanout,
    "idle": crowds.idle,
    "storm": crowds.storm,
    "methods": methods.methods,
    "http": http.http,
    "faults": faults.faults,
    "rss": starting.rss,
    "crash": restarts.crash,
    "approval": restarts.approval,
}
