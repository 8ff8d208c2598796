"""`GET /metrics` for Prometheus: what the processes of this host have counted, and the state of the installation as its rows say.

State is asked of the database with every look, so it is the same on every host and right after any crash. Counters are those of
each process, with the label `process`. Never public: docs/metrics.md says who may look.
"""

import hmac
import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from clawsite.accounts import tokens
from clawsite.api.http.authentication import authenticate
from clawsite.api.http.problems import to_problem
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server import runtime
from clawsite.infra import db
from clawsite.infra.errors import ClawError, Forbidden
from clawsite.infra.observability.metrics import HostCollector
from clawsite.infra.version import version
from sessions_app.models import Run
from sessions_app.runs import freezes, lanes, workers
from tools_app.models import Approval, Command

REQUIRED_PERMISSIONS = ("accounts.administer_gateway", "accounts.view_any_session")  # operators and auditors


async def metrics(request: HttpRequest) -> HttpResponse:
    """The figures as text."""
    try:
        if not _is_scraper(request):
            who = await authenticate(request, Scope.READ, Scope.ADMIN)
            if not await db.read(lambda: any(who.user.has_perm(right) for right in REQUIRED_PERMISSIONS)):
                raise Forbidden("figures of the installation are for operators and auditors")
        process = (await runtime.get_runtime()).metrics_name
        content = await db.read(_render_metrics, process)
    except ClawError as error:
        return to_problem(error, operation="GET /metrics")
    return HttpResponse(content, content_type=CONTENT_TYPE_PLAIN_0_0_4, headers={"Cache-Control": "no-store"})


def _is_scraper(request: HttpRequest) -> bool:
    """A program that may look by the operator's own setting, without an account."""
    header = request.headers.get("Authorization", "")
    if settings.METRICS_TOKEN and (secret := tokens.parse_bearer_header(header)) is not None:
        return hmac.compare_digest(secret.encode(), settings.METRICS_TOKEN.encode())
    return settings.METRICS_LOOPBACK and not header and _is_from_this_host(request)


def _is_from_this_host(request: HttpRequest) -> bool:
    """Behind a proxy on this host everybody is: what a proxy passed on never counts as local."""
    if "X-Forwarded-For" in request.headers or "Forwarded" in request.headers:
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def _render_metrics(process: str) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(HostCollector(settings.HOME, process))
    registry.register(DatabaseCollector())
    return generate_latest(registry)


class DatabaseCollector:
    """Figures of the rows, the same whichever process is asked. Each is a look at an index or a small table."""

    def collect(self) -> Iterator[Metric]:
        yield _build_gauge("info", "Always 1; the version is the label", {(version(),): 1}, "version")
        try:
            found = list(self._read())
        except DatabaseError:
            yield _build_gauge("database_up", "Whether the database answers", {(): 0})
            return
        yield _build_gauge("database_up", "Whether the database answers", {(): 1})
        yield from found

    def _read(self) -> Iterator[Metric]:
        unfinished = dict(Run.objects.filter(status__in=Run.UNFINISHED).values_list("status").annotate(count=Count("pk")))
        runs = {(status,): unfinished.get(status, 0) for status in map(str, Run.UNFINISHED)}
        yield _build_gauge("runs", "Unfinished runs by status", runs, "status")
        report = lanes.report_lanes()
        states = {(row["lane"], told): row[name] for row in report for told, name in _STATE_LABELS.items()}
        yield _build_gauge("lane_runs", "Unfinished runs of a lane", states, "lane", "state")
        yield _build_gauge(
            "lane_max", "How many runs of a lane may be running", {(row["lane"],): row["max"] for row in report}, "lane"
        )
        waits = {(row["lane"],): row["oldestWaitMs"] / 1000 for row in report}
        yield _build_gauge("lane_oldest_wait_seconds", "How long the oldest queued run of a lane has waited", waits, "lane")
        yield _build_gauge("workers", "Workers that have been heard of lately and take runs", {(): workers.list_live().count()})
        pending = Approval.objects.filter(status=Approval.Status.PENDING).count()
        yield _build_gauge("approvals_pending", "Questions about commands that wait for people", {(): pending})
        running = Command.objects.filter(status=Command.Status.RUNNING).count()
        yield _build_gauge("commands_running", "Commands that run now", {(): running})
        yield _build_gauge("stops", "Stops by people that are in force", {(): len(list(freezes.list_active()))})


_STATE_LABELS = {"running": "running", "queued": "queued", "waiting": "parked"}


def _build_gauge(name: str, words: str, values: Mapping[Any, float], *labels: str) -> Metric:
    """`values` by the values of the labels."""
    family = GaugeMetricFamily(f"clawsite_{name}", words, labels=labels)
    for place, value in values.items():
        family.add_metric(place, value)
    return family
