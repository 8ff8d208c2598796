"""The admin dashboard: current activity, refreshed every few seconds, and usage of the last 30 days, every minute."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from clawsite.accounts.models import User
from clawsite.gateway.server import runtime
from clawsite.infra.version import version
from clawsite.web import health
from clawsite.web.admin import charts
from clawsite.web.formatting import format_count, format_duration, format_money
from clawsite.web.freezes import freeze_banners
from clawsite.web.runs.labels import STATUS_LABELS, STATUS_TONES, run_error_label, run_reason_label
from sessions_app.models import Freeze, Run
from sessions_app.reports import operations as operation_reports
from sessions_app.reports.operations import UsageReport, UsageTotals, WorkerState
from sessions_app.runs import lanes

DAYS = 30
MAX_LISTED = 8
REQUIRED_PERMISSIONS = ("sessions_app.view_run", "sessions_app.view_lane", "sessions_app.view_worker")
VIEW_ANY_SESSION = "accounts.view_any_session"
WORKER_TONES = {"silent": "bad", "draining": "warn", "working": "busy", "idle": ""}

TABLE_HEADINGS = {
    "lanes": (
        gettext_lazy("Lane"),
        gettext_lazy("Running"),
        gettext_lazy("Queued"),
        gettext_lazy("Longest wait"),
        gettext_lazy("Waiting"),
    ),
    "workers": (
        gettext_lazy("Worker"),
        gettext_lazy("State"),
        gettext_lazy("Runs"),
        gettext_lazy("Lease expires in"),
        gettext_lazy("Last heartbeat"),
        gettext_lazy("Process"),
        gettext_lazy("Version"),
    ),
    "failed": (gettext_lazy("Run"), gettext_lazy("Model"), gettext_lazy("Reason"), gettext_lazy("Error"), gettext_lazy("Time")),
    "slow": (gettext_lazy("Run"), gettext_lazy("Model"), gettext_lazy("State"), gettext_lazy("Active time"), gettext_lazy("Time")),
}

TableCell = dict[str, str]


def overview(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """For unfold's DASHBOARD_CALLBACK setting. Staff without access to runs get the list of models they can view."""
    user = cast("User", request.user)
    context["title"] = _("Overview")
    if not user.has_perms(REQUIRED_PERMISSIONS):
        return context
    return {**context, "now": build_live_data(user), **_build_usage_history(), "heads": TABLE_HEADINGS}


@never_cache
@require_safe
@login_required
def live_data(request: HttpRequest) -> HttpResponse:
    """Return the live part as JSON with all texts rendered; js/admin/dashboard.js only inserts them.

    `?used` adds the usage section. It counts every run of the last 30 days, so the page requests it once a minute.
    """
    user = cast("User", request.user)
    if not (user.is_staff and user.has_perms(REQUIRED_PERMISSIONS)):
        raise PermissionDenied
    used = {"used": render_to_string("admin/dashboard/_usage.html", _build_usage_history())} if "used" in request.GET else {}
    return JsonResponse({**build_live_data(user), **used})


def _build_usage_history() -> dict[str, Any]:
    return {"used": _usage_context(operation_reports.report_usage(DAYS)), "days": DAYS}


def build_live_data(user: User) -> dict[str, Any]:
    lane_rows = lanes.report_lanes()
    workers = operation_reports.list_worker_states()
    show_errors = user.has_perm(VIEW_ANY_SESSION)
    active_freezes = freeze_banners(user)
    return {
        "at": _("As of %s") % date_format(timezone.localtime(), "H:i:s"),
        "stopped": active_freezes,
        "tiles": [_health(any(each["scope"] == Freeze.Scope.ALL for each in active_freezes)), *_tiles(lane_rows, workers)],
        "lanes": [_lane_cells(row) for row in lane_rows],
        "workers": [_worker_cells(state) for state in workers],
        "failed": [_failed_run_cells(run, show_errors) for run in operation_reports.list_failed_runs(MAX_LISTED)],
        "slow": [_slow_run_cells(run) for run in operation_reports.list_slow_runs(MAX_LISTED)],
    }


def _health(everything_frozen: bool) -> dict[str, str]:
    """Show whether a message sent now would be answered. While everything is frozen, it would not be."""
    if problems := health.list_problems():
        return _tile("health", _("Health"), _("not ready"), " ".join(problems), "bad")
    if everything_frozen:
        return _tile("health", _("Health"), _("frozen"), _("by an operator; nothing runs until it is resumed"), "bad")
    return _tile("health", _("Health"), _("ready"), version(), "good")


def _tiles(lane_rows: list[dict[str, Any]], workers: list[WorkerState]) -> list[dict[str, str]]:
    running, queued, parked = (sum(row[name] for row in lane_rows) for name in ("running", "queued", "parked"))
    oldest = max((row["oldestWaitMs"] for row in lane_rows), default=0)
    late = any(row["late"] for row in lane_rows)
    alive = [each for each in workers if each.state != "silent"]
    silent = len(workers) - len(alive)
    online = runtime.count_online()
    return [
        _tile(
            "running",
            _("Running"),
            format_count(running),
            _("max %d") % sum(row["max"] for row in lane_rows),
            "busy" if running else "",
        ),
        _tile(
            "queued",
            _("Queued"),
            format_count(queued),
            _("oldest: %s") % format_duration(oldest) if queued else _("queue empty"),
            "warn" if late else "",
        ),
        _tile("parked", _("Waiting"), format_count(parked), _("for an approval or a subagent"), "warn" if parked else ""),
        _tile(
            "workers",
            _("Workers"),
            format_count(len(alive)),
            _("%d unresponsive") % silent if silent else _("all responding"),
            "bad" if silent or not alive else "",
        ),
        _tile("sockets", _("Connected"), "–" if online is None else format_count(online), _("clients across all processes"), ""),
    ]


def _tile(key: str, label: str, value: str, remark: str, tone: str) -> dict[str, str]:
    return {"key": key, "label": label, "value": value, "remark": remark, "tone": tone}


def _cell(text: object, tone: str = "", href: str = "", share: str = "", at: str = "") -> TableCell:
    return {"text": str(text), "tone": tone, "href": href, "share": share, "at": at}


def _time_cell(at: datetime) -> TableCell:
    return _cell(date_format(timezone.localtime(at), "DATETIME_FORMAT"), at=at.isoformat())


def _lane_cells(row: dict[str, Any]) -> list[TableCell]:
    waited = format_duration(row["oldestWaitMs"]) if row["queued"] else "–"
    runs = reverse("admin:sessions_app_run_changelist")
    return [
        _cell(row["lane"], href=f"{runs}?lane__exact={row['lane']}"),
        _cell(
            f"{format_count(row['running'])} / {format_count(row['max'])}",
            share=charts.to_percent(min(row["running"], row["max"]), row["max"]),
        ),
        _cell(format_count(row["queued"]), "warn" if row["late"] else ""),
        _cell(waited, "warn" if row["late"] else ""),
        _cell(format_count(row["parked"])),
    ]


def _worker_cells(state: WorkerState) -> list[TableCell]:
    worker = state.worker
    names = {"silent": _("unresponsive"), "draining": _("draining"), "working": _("busy"), "idle": _("idle")}
    lease = "–" if state.lease_seconds is None else format_duration(int(max(0.0, state.lease_seconds) * 1000))
    return [
        _cell(worker.pk, href=reverse("admin:sessions_app_worker_change", args=[worker.pk])),
        _cell(names[state.state], WORKER_TONES[state.state]),
        _cell(format_count(state.running)),
        _cell(lease, "bad" if (state.lease_seconds or 1) < 0 else ""),
        _cell(_("%s ago") % format_duration(int(state.silent_seconds * 1000))),
        _cell(f"{worker.host} · {worker.pid}"),
        _cell(worker.version),
    ]


def _run_cells(run: Run) -> list[TableCell]:
    name = f"{run.owner.username} · {run.session.agent}"
    return [_cell(name, href=reverse("run", args=[run.pk])), _cell(run.model or "–")]


def _failed_run_cells(run: Run, show_errors: bool) -> list[TableCell]:
    when = _time_cell(run.ended_at or run.accepted_at)
    return [
        *_run_cells(run),
        _cell(run_reason_label(run.reason) or "–", "bad"),
        _cell(run_error_label(run)[:200] if show_errors else ""),
        when,
    ]


def _slow_run_cells(run: Run) -> list[TableCell]:
    took = round(run.running_seconds * 1000)
    when = _time_cell(run.ended_at or run.accepted_at)
    return [
        *_run_cells(run),
        _cell(STATUS_LABELS[run.status], STATUS_TONES.get(run.status, "")),
        _cell(format_duration(took)),
        when,
    ]


def _usage_context(report: UsageReport) -> dict[str, Any]:
    """Build the charts and their tables."""
    # Translators: day and month without the year, in Django's date filter syntax
    day_format = _("j M")
    days = [(date_format(day, day_format), used) for day, used in report.days.items()]
    tokens = [f"{day}: {_tokens_label(used)}" for day, used in days]
    costs = [f"{day}: {_cost_label(used)}" for day, used in days]
    return {
        "tokens": charts.build_columns([(used.input_tokens, used.output_tokens) for _day, used in days], tokens),
        "costs": charts.build_columns([(used.cost_microusd,) for _day, used in days], costs),
        "days": [{"day": day, **_usage_labels(used)} for day, used in days],
        "first": days[0][0],
        "last": days[-1][0],
        "agents": _usage_rows(report.agents.items()),
        "models": _usage_rows(report.models.items()),
        "total": _usage_labels(report.total),
        "states": [
            {"words": STATUS_LABELS[status], "tone": STATUS_TONES.get(status, ""), "count": format_count(number)}
            for status, number in report.states.most_common()
        ],
    }


def _usage_rows(named: Iterable[tuple[str, UsageTotals]]) -> list[dict[str, Any]]:
    """Return the first ten rows, with bars by cost, or by tokens if nothing has a cost."""
    rows = list(named)[:10]
    max_cost = max((used.cost_microusd for _name, used in rows), default=0)
    max_tokens = max((used.tokens for _name, used in rows), default=0)
    return [
        {
            "name": name,
            **_usage_labels(used),
            "share": charts.to_percent(*((used.cost_microusd, max_cost) if max_cost else (used.tokens, max_tokens))),
        }
        for name, used in rows
    ]


def _usage_labels(used: UsageTotals) -> dict[str, str]:
    return {
        "runs": format_count(used.runs),
        "failed": format_count(used.failed),
        "tokens": format_count(used.tokens),
        "cost": _cost_label(used),
    }


def _tokens_label(used: UsageTotals) -> str:
    return _("%(input)s input, %(output)s output") % {
        "input": format_count(used.input_tokens),
        "output": format_count(used.output_tokens),
    }


def _cost_label(used: UsageTotals) -> str:
    return format_money(used.cost_microusd / 1e6)
