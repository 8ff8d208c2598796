"""Lanes: limits on concurrent runs per kind, and a warning when a run is queued too long."""

import logging
from typing import Any

from django.db.models import Count, Min, Q

from clawsite.infra import clock
from sessions_app.models import Lane, Run

log = logging.getLogger(__name__)

MAIN, CRON, SUBAGENT, NESTED = "main", "cron", "subagent", "nested"
CHILD_LANES = (SUBAGENT, NESTED)  # other runs may wait for runs in these lanes
REPEAT_WARNING_SECONDS = 600
DEFAULT_MAX_RUNNING = {MAIN: 64, CRON: 5, SUBAGENT: 8, NESTED: 2}


def install_lanes(**_: Any) -> None:
    """Create the four lanes after every migration; limits set by an operator stay."""
    Lane.objects.bulk_create(
        [Lane(name=name, max_running=limit) for name, limit in DEFAULT_MAX_RUNNING.items()], ignore_conflicts=True
    )


def report_lanes() -> list[dict[str, Any]]:
    """Return running, queued and longest wait per lane, for status and the dashboard."""
    counts: dict[str, Any] = {
        row["lane"]: row
        for row in Run.objects.filter(status__in=Run.UNFINISHED)
        .values("lane")
        .annotate(
            running=Count("id", filter=Q(status=Run.Status.RUNNING)),
            queued=Count("id", filter=Q(status=Run.Status.ACCEPTED)),
            parked=Count("id", filter=Q(status=Run.Status.WAITING)),
            oldest=Min("accepted_at", filter=Q(status=Run.Status.ACCEPTED)),
        )
    }
    now = clock.now()
    report = []
    for lane in Lane.objects.order_by("name"):
        row = counts.get(lane.name, {})
        oldest = row.get("oldest")
        waited = (now - oldest).total_seconds() if oldest else 0.0
        report.append(
            {
                "lane": lane.name,
                "running": row.get("running", 0),
                "max": lane.max_running,
                "queued": row.get("queued", 0),
                "parked": row.get("parked", 0),
                "oldestWaitMs": int(waited * 1000),
                "late": waited > lane.warn_after_seconds,
            }
        )
    return report


class LaneDelayMonitor:
    """Log lanes whose oldest run has been queued too long: at the start, every ten minutes, and at the end.

    Each worker's sweep has one; its state is not persisted.
    """

    def __init__(self) -> None:
        self._warned: dict[str, float] = {}  # lane -> time of the last warning, by `clock.boot_time`

    def check(self) -> None:
        now = clock.boot_time()
        for row in report_lanes():
            lane = row["lane"]
            if not row["late"]:
                if self._warned.pop(lane, None) is not None:
                    log.info("lane %s is no longer delayed", lane)
            elif lane not in self._warned or now - self._warned[lane] >= REPEAT_WARNING_SECONDS:
                self._warned[lane] = now
                log.warning(
                    "lane %s: oldest of %d queued runs has waited %.1f s (%d of max %d running)",
                    lane,
                    row["queued"],
                    row["oldestWaitMs"] / 1000,
                    row["running"],
                    row["max"],
                )
