"""What this process counts and measures, for Prometheus. Needs no Django.

Every process counts for itself, in memory: an increment takes about a microsecond and touches no file. Beside that it leaves
its figures in a file of the state directory every few seconds, because workers have no port to be asked at: the web process
that is asked puts those of its host together (`clawsite.api.metrics`). Figures of the database are not counted here.

Labels are words of ours, or names an operator configured. Never what somebody wrote, a key or an id: each new value of a label
is a series that Prometheus keeps.
"""

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

FOLDER = "metrics"  # in the state directory
WRITE_INTERVAL_SECONDS = 5.0  # between two files of one process; writing one takes some 2 ms
STALE_SECONDS = 60.0  # a process that has not written for so long is gone
DELETE_AFTER_SECONDS = 3600.0

QUICK_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SLOW_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)  # CPU, memory, file descriptors, start


def _make_counter(name: str, words: str, *labels: str) -> Counter:
    return Counter(f"clawsite_{name}", words, labels, registry=REGISTRY)


def _make_histogram(name: str, words: str, *labels: str, buckets: tuple[float, ...] = QUICK_BUCKETS) -> Histogram:
    return Histogram(f"clawsite_{name}", words, labels, buckets=buckets, registry=REGISTRY)


# `method` is a method of the socket, or verb and route of HTTP; `code` is ok, an error code, or an HTTP status.
requests = _make_counter("requests", "Requests answered", "interface", "method", "code")
request_seconds = _make_histogram("request_seconds", "Time to answer a request", "interface")
rate_limited = _make_counter("rate_limited", "Requests refused because there were too many", "interface")
sockets = Gauge("clawsite_sockets", "WebSockets that have shaken hands", registry=REGISTRY)

runs_accepted = _make_counter("runs_accepted", "Runs queued", "lane")
runs_ended = _make_counter("runs_ended", "Runs ended", "status")
runs_rescued = _make_counter("runs_rescued", "Runs taken over from a worker that was lost")
queue_seconds = _make_histogram("run_queue_seconds", "Time from accepting a run to its start", "lane", buckets=SLOW_BUCKETS)

model_calls = _make_counter("model_calls", "Attempts to ask a model; outcome is ok or the kind of failure", "provider", "outcome")
model_seconds = _make_histogram(
    "model_call_seconds", "Time from asking a model to the end of its answer", "provider", buckets=SLOW_BUCKETS
)
model_tokens = _make_counter("model_tokens", "Tokens of model calls", "provider", "kind")
tool_calls = _make_counter("tool_calls", "Tool calls that began", "outcome")
tool_seconds = _make_histogram("tool_call_seconds", "Time from start to end of a tool call", buckets=SLOW_BUCKETS)
approvals_decided = _make_counter("approvals_decided", "Questions about commands that were closed", "status")

deltas = _make_counter("event_deltas", "Pieces of answers appended as events, after merging")
flush_seconds = _make_histogram("event_flush_seconds", "Time to commit the pieces of all answers in flight")
db_commits = _make_counter("db_commits", "Transactions of the writer thread")
db_writes = _make_counter("db_writes", "Operations done by the writer thread")
commit_seconds = _make_histogram("db_commit_seconds", "Time of one transaction of the writer thread")
db_queue = Gauge("clawsite_db_writer_queue", "Operations that wait for the writer thread", registry=REGISTRY)


def write_snapshot(home: Path, process: str) -> None:
    """Write this process's figures where the web processes of this host find them."""
    folder = home / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    new = folder / f"{process}.new"
    new.write_bytes(generate_latest(REGISTRY))
    new.replace(folder / f"{process}.prom")


def remove_snapshot(home: Path, process: str) -> None:
    """This process ends."""
    with contextlib.suppress(OSError):
        (home / FOLDER / f"{process}.prom").unlink(missing_ok=True)


class HostCollector:
    """A collector of the figures of every process on this host, each with the label `process`."""

    def __init__(self, home: Path, process: str) -> None:
        self._home, self._process = home, process

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for process, found in [(self._process, REGISTRY.collect()), *_read_other_processes(self._home, self._process)]:
            for family in found:
                merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type, family.unit))
                merged.samples += [_with_process_label(sample, process) for sample in family.samples]
        yield from families.values()


def _with_process_label(sample: Sample, process: str) -> Sample:
    return sample._replace(labels={**sample.labels, "process": process})


def _read_other_processes(home: Path, process: str) -> Iterator[tuple[str, Iterator[Metric]]]:
    now = time.time()
    for path in sorted((home / FOLDER).glob("*.prom")):
        try:
            age = now - path.stat().st_mtime
            if age > DELETE_AFTER_SECONDS:
                path.unlink()
            if age <= STALE_SECONDS and path.stem != process:
                yield path.stem, iter(list(text_string_to_metric_families(path.read_text())))
        except (OSError, ValueError):  # it ended this moment; or a file that is none of ours
            continue


def process_name(role: str) -> str:
    """Not the number alone: in two containers both may be the first process, and share a state directory."""
    return f"{role}-{os.getpid()}-{secrets.token_hex(2)}"
