"""Operational reports: workers and the runs they hold, failed and slow runs, model usage.

Only numbers and names, no user content; the caller checks permissions.
"""

import datetime as dt
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from django.conf import settings
from django.db.models import Count, Min, QuerySet, Sum
from django.db.models.functions import TruncDate

from clawsite.infra import clock, sql
from sessions_app.models import Run, Worker
from sessions_app.runs.workers import MISSED_HEARTBEATS

MAX_RUNS_SCANNED = 2_000  # the newest runs, so finding slow and failed ones has a constant cost
SLOW_RUN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class WorkerState:
    worker: Worker
    silent_seconds: float
    running: int
    lease_seconds: float | None  # until its first lease expires

    @property
    def state(self) -> str:
        if self.silent_seconds > MISSED_HEARTBEATS * settings.HEARTBEAT_SECONDS:
            return "silent"
        return "draining" if self.worker.draining else "working" if self.running else "idle"


@dataclass(slots=True)
class UsageTotals:
    """Usage of a set of runs."""

    runs: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_microusd: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def add(self, other: "UsageTotals") -> None:
        self.runs += other.runs
        self.failed += other.failed
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens
        self.cost_microusd += other.cost_microusd


@dataclass(slots=True)
class UsageReport:
    """Usage by day (all days, oldest first), by agent and by model, most expensive first."""

    days: dict[dt.date, UsageTotals]
    total: UsageTotals = field(default_factory=UsageTotals)
    agents: dict[str, UsageTotals] = field(default_factory=dict)
    models: dict[str, UsageTotals] = field(default_factory=dict)
    states: Counter[str] = field(default_factory=Counter)


def list_worker_states() -> list[WorkerState]:
    """List every known worker, including unresponsive ones, with the runs it holds."""
    now = sql.db_now()
    running = Run.objects.filter(status=Run.Status.RUNNING)
    held = {row["worker"]: row for row in running.values("worker").annotate(count=Count("id"), until=Min("lease_until"))}
    states = []
    for worker in Worker.objects.order_by("started_at"):
        row = held.get(worker.pk)
        until = row["until"] - now if row and row["until"] else None
        states.append(WorkerState(worker, max(0.0, now - worker.heartbeat_at), row["count"] if row else 0, until))
    return states


def list_failed_runs(limit: int) -> list[Run]:
    """List the newest failed runs."""
    failed = Run.objects.filter(pk__gt=_oldest_scanned_run(), status=Run.Status.FAILED)
    return list(failed.select_related("session", "owner").order_by("-id")[:limit])


def list_slow_runs(limit: int) -> list[Run]:
    """List the runs with the longest working time among the newest; waiting for an approval or a lane slot doesn't count."""
    slow = Run.objects.filter(pk__gt=_oldest_scanned_run(), ended_at__isnull=False, running_seconds__gte=SLOW_RUN_SECONDS)
    return list(slow.select_related("session", "owner").order_by("-running_seconds", "-id")[:limit])


def report_usage(days: int) -> UsageReport:
    """Report all users' usage in the last days."""
    today = clock.now().date()
    return aggregate_usage(Run.objects.all(), today - dt.timedelta(days=days - 1), today)


def aggregate_usage(runs: QuerySet[Run], first: dt.date, last: dt.date, zone: dt.tzinfo = dt.UTC) -> UsageReport:
    """Run one query: a row for each day, agent, model and status. `zone` defines where a day begins."""
    report = UsageReport({first + dt.timedelta(days=n): UsageTotals() for n in range((last - first).days + 1)})
    rows = (
        filter_accepted_between(runs, first, last, zone)
        .values("session__agent", "model", "status", day=TruncDate("accepted_at", tzinfo=zone))
        .annotate(runs=Count("id"), input=Sum("input_tokens"), output=Sum("output_tokens"), cost=Sum("cost_microusd"))
    )
    for row in rows:
        failed = row["runs"] if row["status"] == Run.Status.FAILED else 0
        used = UsageTotals(row["runs"], failed, row["input"], row["output"], row["cost"])
        report.states[row["status"]] += row["runs"]
        for totals_of in (
            report.total,
            report.days.setdefault(row["day"], UsageTotals()),
            report.agents.setdefault(row["session__agent"], UsageTotals()),
            report.models.setdefault(row["model"], UsageTotals()),
        ):
            totals_of.add(used)
    report.models.pop("", None)  # runs that never reached a model
    report.agents, report.models = _most_expensive_first(report.agents.items()), _most_expensive_first(report.models.items())
    return report


def filter_accepted_between(runs: QuerySet[Run], first: dt.date, last: dt.date, zone: dt.tzinfo = dt.UTC) -> QuerySet[Run]:
    """Filter runs accepted on these days, both included."""
    since = dt.datetime.combine(first, dt.time(), zone)
    return runs.filter(accepted_at__gte=since, accepted_at__lt=dt.datetime.combine(last + dt.timedelta(days=1), dt.time(), zone))


def _most_expensive_first(rows: Iterable[tuple[str, UsageTotals]]) -> dict[str, UsageTotals]:
    return dict(sorted(rows, key=lambda row: (-row[1].cost_microusd, -row[1].tokens, row[0])))


def _oldest_scanned_run() -> int:
    newest = Run.objects.order_by("-id").values_list("id", flat=True).first() or 0
    return newest - MAX_RUNS_SCANNED
