"""The first page of the admin: what goes on now, told every few seconds, and what the last thirty days were, every minute."""

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
from clawsite.web.formatting import count, duration, money
from clawsite.web.freezes import shown_stops
from clawsite.web.runs.labels import COLOURS, STATUS_WORDS, reason_words
from sessions_app.models import Freeze, Run
from sessions_app.reports import operations as operation_reports
from sessions_app.reports.operations import Usage, Used, WorkerState
from sessions_app.runs import lanes

DAYS = 30
LISTED = 8
NEEDED = ("sessions_app.view_run", "sessions_app.view_lane", "sessions_app.view_worker")
READ_ALONG = "accounts.view_any_session"
TONES = {"silent": "bad", "draining": "warn", "working": "busy", "idle": ""}

HEADS = {
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

Cell = dict[str, str]


def overview(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """For unfold's setting DASHBOARD_CALLBACK. Staff who may not see runs get the list of what they may see."""
    user = cast("User", request.user)
    context["title"] = _("Overview")
    if not user.has_perms(NEEDED):
        return context
    return {**context, "now": now(user), **_lately(), "heads": HEADS}


@never_cache
@require_safe
@login_required
def live(request: HttpRequest) -> HttpResponse:
    """What changes by the second, as JSON, with the words already in it: js/admin/dashboard.js only puts them in their places.

    With `?used` the part about the last days comes too. It counts every run of thirty days, so it is asked for once a minute.
    """
    user = cast("User", request.user)
    if not (user.is_staff and user.has_perms(NEEDED)):
        raise PermissionDenied
    used = {"used": render_to_string("dashboard/_used.html", _lately())} if "used" in request.GET else {}
    return JsonResponse({**now(user), **used})


def _lately() -> dict[str, Any]:
    return {"used": _used(operation_reports.usage(DAYS)), "days": DAYS}


def now(user: User) -> dict[str, Any]:
    lane_rows = lanes.lane_report()
    workers = operation_reports.worker_states()
    words = user.has_perm(READ_ALONG)
    stopped = shown_stops(user)
    return {
        "at": _("As of %s") % date_format(timezone.localtime(), "H:i:s"),
        "stopped": stopped,
        "tiles": [_health(any(stop["scope"] == Freeze.Scope.ALL for stop in stopped)), *_tiles(lane_rows, workers)],
        "lanes": [_lane(row) for row in lane_rows],
        "workers": [_worker(state) for state in workers],
        "failed": [_failed(run, words) for run in operation_reports.failed_runs(LISTED)],
        "slow": [_slow(run) for run in operation_reports.slow_runs(LISTED)],
    }


def _health(stopped: bool) -> dict[str, str]:
    """Whether a message sent now would be answered. While people have stopped everything, it would not."""
    if lacks := health.missing():
        return _tile("health", _("Health"), _("not ready"), " ".join(lacks), "bad")
    if stopped:
        return _tile("health", _("Health"), _("frozen"), _("by an operator; nothing runs until it is resumed"), "bad")
    return _tile("health", _("Health"), _("ready"), version(), "good")


def _tiles(lane_rows: list[dict[str, Any]], workers: list[WorkerState]) -> list[dict[str, str]]:
    running, queued, parked = (sum(row[name] for row in lane_rows) for name in ("running", "queued", "parked"))
    oldest = max((row["oldestWaitMs"] for row in lane_rows), default=0)
    late = any(row["late"] for row in lane_rows)
    alive = [each for each in workers if each.state != "silent"]
    silent = len(workers) - len(alive)
    online = runtime.online()
    return [
        _tile(
            "running",
            _("Running"),
            count(running),
            _("max %d") % sum(row["max"] for row in lane_rows),
            "busy" if running else "",
        ),
        _tile(
            "queued",
            _("Queued"),
            count(queued),
            _("oldest: %s") % duration(oldest) if queued else _("queue empty"),
            "warn" if late else "",
        ),
        _tile("parked", _("Waiting"), count(parked), _("for an approval or a subagent"), "warn" if parked else ""),
        _tile(
            "workers",
            _("Workers"),
            count(len(alive)),
            _("%d unresponsive") % silent if silent else _("all responding"),
            "bad" if silent or not alive else "",
        ),
        _tile("sockets", _("Connected"), "–" if online is None else count(online), _("clients across all processes"), ""),
    ]


def _tile(key: str, label: str, value: str, remark: str, tone: str) -> dict[str, str]:
    return {"key": key, "label": label, "value": value, "remark": remark, "tone": tone}


def _cell(text: object, tone: str = "", href: str = "", share: str = "", at: str = "") -> Cell:
    return {"text": str(text), "tone": tone, "href": href, "share": share, "at": at}


def _moment(at: datetime) -> Cell:
    return _cell(date_format(timezone.localtime(at), "DATETIME_FORMAT"), at=at.isoformat())


def _lane(row: dict[str, Any]) -> list[Cell]:
    waited = duration(row["oldestWaitMs"]) if row["queued"] else "–"
    runs = reverse("admin:sessions_app_run_changelist")
    return [
        _cell(row["lane"], href=f"{runs}?lane__exact={row['lane']}"),
        _cell(f"{count(row['running'])} / {count(row['max'])}", share=charts.share(min(row["running"], row["max"]), row["max"])),
        _cell(count(row["queued"]), "warn" if row["late"] else ""),
        _cell(waited, "warn" if row["late"] else ""),
        _cell(count(row["parked"])),
    ]


def _worker(state: WorkerState) -> list[Cell]:
    worker = state.worker
    names = {"silent": _("unresponsive"), "draining": _("draining"), "working": _("busy"), "idle": _("idle")}
    lease = "–" if state.lease_seconds is None else duration(int(max(0.0, state.lease_seconds) * 1000))
    return [
        _cell(worker.pk, href=reverse("admin:sessions_app_worker_change", args=[worker.pk])),
        _cell(names[state.state], TONES[state.state]),
        _cell(count(state.running)),
        _cell(lease, "bad" if (state.lease_seconds or 1) < 0 else ""),
        _cell(_("%s ago") % duration(int(state.silent_seconds * 1000))),
        _cell(f"{worker.host} · {worker.pid}"),
        _cell(worker.version),
    ]


def _run_cells(run: Run) -> list[Cell]:
    name = f"{run.owner.username} · {run.session.agent}"
    return [_cell(name, href=reverse("run", args=[run.pk])), _cell(run.model or "–")]


def _failed(run: Run, words: bool) -> list[Cell]:
    when = _moment(run.ended_at or run.accepted_at)
    return [*_run_cells(run), _cell(reason_words(run.reason) or "–", "bad"), _cell(run.error[:200] if words else ""), when]


def _slow(run: Run) -> list[Cell]:
    took = round(run.running_seconds * 1000)
    when = _moment(run.ended_at or run.accepted_at)
    return [*_run_cells(run), _cell(STATUS_WORDS[run.status], COLOURS.get(run.status, "")), _cell(duration(took)), when]


def _used(report: Usage) -> dict[str, Any]:
    """The plots and their tables."""
    # Translators: a day without its year, in the letters of Django's date filter
    day_format = _("j M")
    days = [(date_format(day, day_format), used) for day, used in report.days.items()]
    tokens = [f"{day}: {_tokens(used)}" for day, used in days]
    costs = [f"{day}: {_cost(used)}" for day, used in days]
    return {
        "tokens": charts.columns([(used.input_tokens, used.output_tokens) for _day, used in days], tokens),
        "costs": charts.columns([(used.cost_microusd,) for _day, used in days], costs),
        "days": [{"day": day, **_figures(used)} for day, used in days],
        "first": days[0][0],
        "last": days[-1][0],
        "agents": _rows(report.agents.items()),
        "models": _rows(report.models.items()),
        "total": _figures(report.total),
        "states": [
            {"words": STATUS_WORDS[status], "tone": COLOURS.get(status, ""), "count": count(number)}
            for status, number in report.states.most_common()
        ],
    }


def _rows(named: Iterable[tuple[str, Used]]) -> list[dict[str, Any]]:
    """The first ten; bars by cost, or by tokens where nothing costs anything."""
    rows = list(named)[:10]
    dearest = max((used.cost_microusd for _name, used in rows), default=0)
    most = max((used.tokens for _name, used in rows), default=0)
    return [
        {
            "name": name,
            **_figures(used),
            "share": charts.share(*((used.cost_microusd, dearest) if dearest else (used.tokens, most))),
        }
        for name, used in rows
    ]


def _figures(used: Used) -> dict[str, str]:
    return {"runs": count(used.runs), "failed": count(used.failed), "tokens": count(used.tokens), "cost": _cost(used)}


def _tokens(used: Used) -> str:
    return _("%(input)s input, %(output)s output") % {"input": count(used.input_tokens), "output": count(used.output_tokens)}


def _cost(used: Used) -> str:
    return money(used.cost_microusd / 1e6)
