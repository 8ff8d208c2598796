"""`GET /metrics` for Prometheus: the counters of this host's processes, and the state of the server from the database.

State is read from the database on every scrape, so it is the same on every host and correct after a crash. Counters are per
process, with the label `process`. Never public: docs/metrics.md lists who has access.
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
    """Return the metrics in Prometheus text format."""
    try:
        if not _is_scraper(request):
            caller = await authenticate(request, Scope.READ, Scope.ADMIN)
            if not await db.read(lambda: any(caller.user.has_perm(permission) for permission in REQUIRED_PERMISSIONS)):
                raise Forbidden("only operators and auditors can read metrics")
        process = (await runtime.get_runtime()).host.metrics_name
        content = await db.read(_render_metrics, process)
    except ClawError as error:
        return to_problem(error, operation="GET /metrics")
    return HttpResponse(content, content_type=CONTENT_TYPE_PLAIN_0_0_4, headers={"Cache-Control": "no-store"})


def _is_scraper(request: HttpRequest) -> bool:
    """Whether the operator's settings allow this request without an account."""
    header = request.headers.get("Authorization", "")
    if settings.METRICS_TOKEN and (secret := tokens.parse_bearer_header(header)) is not None:
        return hmac.compare_digest(secret.encode(), settings.METRICS_TOKEN.encode())
    return settings.METRICS_LOOPBACK and not header and _is_from_this_host(request)


def _is_from_this_host(request: HttpRequest) -> bool:
    """Requests forwarded by a proxy never count as local; otherwise, all requests through a proxy on this host would."""
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
    """Metrics from the database, the same in every process. Each query reads an index or a small table."""

    def collect(self) -> Iterator[Metric]:
        yield _build_gauge("info", "Always 1; the version is the label", {(version(),): 1}, "version")
        try:
            metrics = list(self._read())
        except DatabaseError:
            yield _build_gauge("database_up", "Whether the database responds", {(): 0})
            return
        yield _build_gauge("database_up", "Whether the database responds", {(): 1})
        yield from metrics

    def _read(self) -> Iterator[Metric]:
        unfinished = dict(Run.objects.filter(status__in=Run.UNFINISHED).values_list("status").annotate(count=Count("pk")))
        runs = {(status,): unfinished.get(status, 0) for status in map(str, Run.UNFINISHED)}
        yield _build_gauge("runs", "Unfinished runs by status", runs, "status")
        report = lanes.report_lanes()
        states = {(row["lane"], state): row[name] for row in report for state, name in _STATE_LABELS.items()}
        yield _build_gauge("lane_runs", "Unfinished runs of a lane", states, "lane", "state")
        limits = {(row["lane"],): row["max"] for row in report}
        yield _build_gauge("lane_max", "Max concurrent runs of a lane", limits, "lane")
        waits = {(row["lane"],): row["oldestWaitMs"] / 1000 for row in report}
        yield _build_gauge("lane_oldest_wait_seconds", "Waiting time of the oldest queued run of a lane", waits, "lane")
        yield _build_gauge("workers", "Live workers that accept runs", {(): workers.list_live().count()})
        pending = Approval.objects.filter(status=Approval.Status.PENDING).count()
        yield _build_gauge("approvals_pending", "Pending approval requests", {(): pending})
        running = Command.objects.filter(status=Command.Status.RUNNING).count()
        yield _build_gauge("commands_running", "Running commands", {(): running})
        yield _build_gauge("stops", "Active freezes", {(): len(list(freezes.list_active()))})


_STATE_LABELS = {"running": "running", "queued": "queued", "waiting": "parked"}


def _build_gauge(name: str, help_text: str, values: Mapping[Any, float], *labels: str) -> Metric:
    """Build a gauge. `values` maps label values to the value."""
    family = GaugeMetricFamily(f"clawsite_{name}", help_text, labels=labels)
    for label_values, value in values.items():
        family.add_metric(label_values, value)
    return family
