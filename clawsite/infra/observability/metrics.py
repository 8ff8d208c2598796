"""Prometheus metrics of this process. Needs no Django.

Each process counts in memory: an increment takes about a microsecond and no file access. Every few seconds it also writes its
metrics to a file in the state directory, because workers have no HTTP port; the web process that is scraped merges the files
of its host (`clawsite.api.metrics`). Values that come from the database are not counted here.

Label values are constants, or names configured by an operator, never user input, keys or IDs: Prometheus stores a time series
for each value.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

FOLDER = "metrics"  # in the state directory
WRITE_INTERVAL_SECONDS = 5.0  # writing a file takes about 2 ms
STALE_SECONDS = 60.0  # a process that has not written for this long is considered gone
DELETE_AFTER_SECONDS = 3600.0

QUICK_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SLOW_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)  # CPU, memory, file descriptors, start time


def _make_counter(name: str, help_text: str, *labels: str) -> Counter:
    return Counter(f"clawsite_{name}", help_text, labels, registry=REGISTRY)


def _make_gauge(name: str, help_text: str, *labels: str) -> Gauge:
    return Gauge(f"clawsite_{name}", help_text, labels, registry=REGISTRY)


def _make_histogram(name: str, help_text: str, *labels: str, buckets: tuple[float, ...] = QUICK_BUCKETS) -> Histogram:
    return Histogram(f"clawsite_{name}", help_text, labels, buckets=buckets, registry=REGISTRY)


# `method` is a WebSocket method, or an HTTP verb and route; `code` is ok, an error code, or an HTTP status.
requests = _make_counter("requests", "Completed requests", "interface", "method", "code")
request_seconds = _make_histogram("request_seconds", "Time to complete a request", "interface")
rate_limited = _make_counter("rate_limited", "Requests rejected by the rate limit", "interface")
sockets = _make_gauge("sockets", "Authenticated WebSocket connections")

runs_accepted = _make_counter("runs_accepted", "Runs queued", "lane")
runs_ended = _make_counter("runs_ended", "Runs ended", "status")
runs_rescued = _make_counter("runs_rescued", "Runs recovered from a lost worker")
queue_seconds = _make_histogram("run_queue_seconds", "Time from queuing a run to its start", "lane", buckets=SLOW_BUCKETS)

model_calls = _make_counter("model_calls", "Model calls; outcome is ok or the kind of failure", "provider", "outcome")
model_seconds = _make_histogram(
    "model_call_seconds", "Time from a model request to the end of its answer", "provider", buckets=SLOW_BUCKETS
)
model_tokens = _make_counter("model_tokens", "Tokens used by model calls", "provider", "kind")
tool_calls = _make_counter("tool_calls", "Tool calls started", "outcome")
tool_seconds = _make_histogram("tool_call_seconds", "Duration of tool calls", buckets=SLOW_BUCKETS)
approvals_decided = _make_counter("approvals_decided", "Approval requests closed", "status")

deltas = _make_counter("event_deltas", "Answer deltas appended as events, after merging")
flush_seconds = _make_histogram("event_flush_seconds", "Time to commit the deltas of all answers in progress")
db_commits = _make_counter("db_commits", "Transactions committed by the writer thread")
db_writes = _make_counter("db_writes", "Operations executed by the writer thread")
commit_seconds = _make_histogram("db_commit_seconds", "Duration of a transaction of the writer thread")
db_queue = _make_gauge("db_writer_queue", "Operations waiting for the writer thread")

# `task` is the name of a periodic task.
periodic_failures = _make_counter("periodic_failures", "Failed runs of a periodic task", "task")
periodic_last_success = _make_gauge(
    "periodic_last_success_timestamp_seconds",
    "Time of the last success of a periodic task, or of its start if there was none",
    "task",
)
periodic_running_seconds = _make_gauge(
    "periodic_running_seconds", "How long the current run of a periodic task has taken, 0 if there is none", "task"
)
periodic_interval_seconds = _make_gauge("periodic_interval_seconds", "Interval of a periodic task", "task")
periodic_hang_seconds = _make_gauge("periodic_hang_seconds", "Running time after which a periodic task counts as hanging", "task")


def observe_periodic_task(task: str, interval: float, hang_after: float, running_seconds: Callable[[], float]) -> None:
    """Start the metrics of a periodic task."""
    periodic_failures.labels(task)
    periodic_last_success.labels(task).set_to_current_time()
    periodic_interval_seconds.labels(task).set(interval)
    periodic_hang_seconds.labels(task).set(hang_after)
    periodic_running_seconds.labels(task).set_function(running_seconds)


def write_snapshot(home: Path, process: str) -> None:
    """Write this process's metrics for the web processes on this host."""
    folder = home / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    new = folder / f"{process}.new"
    new.write_bytes(generate_latest(REGISTRY))
    new.replace(folder / f"{process}.prom")


def remove_snapshot(home: Path, process: str) -> None:
    """Delete this process's file when it exits."""
    with contextlib.suppress(OSError):
        (home / FOLDER / f"{process}.prom").unlink(missing_ok=True)


class HostCollector:
    """Collects the metrics of every process on this host, with the label `process`."""

    def __init__(self, home: Path, process: str) -> None:
        self._home, self._process = home, process

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        others = ((name, families) for name, _, families in read_snapshots(self._home) if name != self._process)
        for process, collected in [(self._process, REGISTRY.collect()), *others]:
            for family in collected:
                merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type, family.unit))
                merged.samples += [_with_process_label(sample, process) for sample in family.samples]
        yield from families.values()


def _with_process_label(sample: Sample, process: str) -> Sample:
    return sample._replace(labels={**sample.labels, "process": process})


def read_snapshots(home: Path) -> Iterator[tuple[str, float, list[Metric]]]:
    """Return name, time of writing and metrics of every live process on this host."""
    now = time.time()
    for path in sorted((home / FOLDER).glob("*.prom")):
        try:
            written_at = path.stat().st_mtime
            age = now - written_at
            if age > DELETE_AFTER_SECONDS:
                path.unlink()
            if age <= STALE_SECONDS:
                yield path.stem, written_at, list(text_string_to_metric_families(path.read_text()))
        except (OSError, ValueError):  # the process just exited, or the file is not ours
            continue


def process_name(role: str) -> str:
    """Return a unique process name. The PID is not enough: two containers that share a state directory can both have PID 1."""
    return f"{role}-{os.getpid()}-{secrets.token_hex(2)}"
