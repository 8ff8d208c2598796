"""Run timeline, list of the user's runs, and run export. The timeline's events arrive over the WebSocket."""

from collections.abc import Iterator
from typing import Any, cast

import orjson
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.http import content_disposition_header
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from clawsite.accounts.models import User
from clawsite.infra.errors import NotFound
from clawsite.infra.observability.tracing import parse_trace_id
from clawsite.infra.reason_texts import translate_reason
from clawsite.infra.reasons import Reason
from clawsite.infra.version import version
from clawsite.web.formatting import format_count, format_duration, format_money, format_run_row
from clawsite.web.freezes import freeze_banners
from clawsite.web.runs.labels import (
    CALL_STATUS_LABELS,
    EFFECT_LABELS,
    STATUS_LABELS,
    STATUS_TONES,
    run_error_label,
    run_reason_label,
)
from sessions_app.models import Run
from sessions_app.reports import runs as run_reports
from sessions_app.reports.runs import RunAccess
from sessions_app.runs import freezes
from sessions_app.verdicts import translate_verdict

FILTER_CHOICES = (
    ("", _("All")),
    ("unfinished", _("Unfinished")),
    ("completed", _("Completed")),
    ("error", _("Failed")),
    ("aborted", _("Stopped")),
)
PER_PAGE = 50


@never_cache
@require_safe
@login_required
def list_runs(request: HttpRequest) -> HttpResponse:
    """List the user's runs, newest first."""
    status = request.GET.get("status", "")
    before = request.GET.get("before", "")
    if status not in dict(FILTER_CHOICES) or not (before.isdecimal() or not before) or len(before) > 18:
        raise Http404
    page = run_reports.list_runs(_user(request), status=status, limit=PER_PAGE, before=int(before) if before else None)
    context = {
        "runs": [_run_row(row) for row in page.runs],
        "older": page.cursor,
        "status": status,
        "filters": FILTER_CHOICES,
        "before": before,
    }
    return render(request, "runs/list.html", context)


@never_cache
@require_safe
@login_required
def show_run(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the current state of a run. js/runs/page.js fills the timeline."""
    access = _find_run(request, pk)
    report = run_reports.summarize_run(access)
    has_events = run_reports.has_stored_events(access.run)
    own = access.run.session.owner_id == request.user.pk and access.run.session.deleted_at is None
    seen = access.may_read_text and access.run.session.deleted_at is None
    context = {
        "run": _run_row(report["run"]) | {"error": report["run"]["error"] and run_error_label(access.run)},
        "figures": _run_figures(report),
        "report": report,
        "own": own,
        "seen": seen,
        "kept": has_events,
    }
    row = access.run
    active_freezes = (
        [] if row.status in Run.ENDED else [each for each in freezes.list_active() if each.covers(row.session.agent, row.pk)]
    )
    context |= {"stops": freeze_banners(_user(request), active_freezes), "may_stop": freezes.may_freeze(_user(request))}
    context["calls"] = [_call_row(call) for call in report["toolCalls"]]
    return render(request, "runs/run.html", context)


@never_cache
@require_safe
@login_required
def export_run(request: HttpRequest, pk: int) -> HttpResponse:
    """Download summary and events as JSON. The page also uses it when it can't read them over the socket."""
    access = _find_run(request, pk)
    name = content_disposition_header(True, f"run-{pk}.json") or ""
    headers = {"Content-Disposition": name, "X-Content-Type-Options": "nosniff"}
    return HttpResponse(b"".join(_stream_export(access)), content_type="application/json", headers=headers)


def _stream_export(access: RunAccess) -> Iterator[bytes]:
    head = {"clawsite": version(), **run_reports.summarize_run(access)}
    yield orjson.dumps(head)[:-1] + b',"events":['
    for index, event in enumerate(run_reports.iterate_events(access)):
        yield (b",\n" if index else b"\n") + orjson.dumps(event)
    yield b"\n]}\n"


def _user(request: HttpRequest) -> User:
    return cast("User", request.user)  # login_required


def _find_run(request: HttpRequest, pk: int) -> RunAccess:
    try:
        return run_reports.find_viewable_run(_user(request), pk=pk)
    except NotFound as error:
        raise Http404 from error


def _run_row(row: dict[str, Any]) -> dict[str, Any]:
    status = row["status"]
    return {
        **format_run_row(row),
        "status_words": STATUS_LABELS[status],
        "colour": STATUS_TONES.get(status, ""),
        "why": run_reason_label(row["reason"]),
    }


def _step_row(step: dict[str, Any]) -> dict[str, Any]:
    return {**step, "words": EFFECT_LABELS.get(step["effect"], step["effect"]), "rule": translate_reason(Reason.from_json(step))}


def _call_row(call: dict[str, Any]) -> dict[str, Any]:
    return {
        **call,
        "took": format_duration(call["durationMs"]),
        "status_words": CALL_STATUS_LABELS.get(call["status"], call["status"]),
        "why": translate_verdict(call["verdict"]),
        "steps": [_step_row(step) for step in call["trace"]],
    }


def _run_figures(report: dict[str, Any]) -> list[tuple[Any, str, Any]]:
    """Return name, value and remark of each figure, in page order."""
    row, times = report["run"], report["timings"]
    usage = row["usage"]
    # In any other status, the reason says how the run ended.
    waits_for = run_reason_label(row["reason"]) if row["status"] == Run.Status.WAITING else ""
    return [
        (_("Total"), format_duration(times["totalMs"]), ""),
        (_("Queued"), format_duration(times["queuedMs"]), ""),
        (_("First output"), format_duration(times["firstWordMs"]), _("after sending")),
        (_("Model"), format_duration(times["modelMs"]), row["model"] or ""),
        (_("Tools"), format_duration(times["toolsMs"]), _("tool calls: %d") % len(report["toolCalls"])),
        *([(_("Waited"), format_duration(times["waitingMs"]), waits_for)] if times["waitingMs"] else []),
        (
            _("Tokens"),
            format_count(usage["input"] + usage["output"]),
            _("%(input)s input, %(output)s output") % {k: format_count(usage[k]) for k in ("input", "output")},
        ),
        (_("Cost"), format_money(usage["costUsd"]), ""),
        *([(_("Trace"), "", parse_trace_id(row["traceparent"]))] if row["traceparent"] else []),
        (_("Attempts"), format_count(report["attempts"]), _("recovered: %d") % row["rescues"] if row["rescues"] else ""),
    ]
