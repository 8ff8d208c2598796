"""The page of one run, the list of one's own, and a run as a file. What the page plays back comes over the WebSocket."""

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
from clawsite.infra.observability.tracing import trace_id
from clawsite.infra.version import version
from clawsite.web.formatting import count, duration, money, shown_run
from clawsite.web.freezes import shown_stops
from clawsite.web.runs.labels import CALL_WORDS, COLOURS, EFFECT_WORDS, STATUS_WORDS, reason_words
from sessions_app.labels.rules import decision_words, rule_words
from sessions_app.models import Run
from sessions_app.reports import runs as run_reports
from sessions_app.reports.runs import Look
from sessions_app.runs import freezes

FILTERS = (
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
def runs(request: HttpRequest) -> HttpResponse:
    """One's own runs, newest first."""
    status = request.GET.get("status", "")
    before = request.GET.get("before", "")
    if status not in dict(FILTERS) or not (before.isdecimal() or not before) or len(before) > 18:
        raise Http404
    page = run_reports.list_runs(_user(request), status=status, limit=PER_PAGE, before=int(before) if before else None)
    context = {
        "runs": [_shown(row) for row in page.runs],
        "older": page.cursor,
        "status": status,
        "filters": FILTERS,
        "before": before,
    }
    return render(request, "runs/list.html", context)


@never_cache
@require_safe
@login_required
def run(request: HttpRequest, pk: int) -> HttpResponse:
    """What is known of a run now. The recorder below is filled by js/runs/page.js."""
    look = _look(request, pk)
    report = run_reports.summary(look)
    kept = run_reports.events_are_kept(look.run)
    own = look.run.session.owner_id == request.user.pk and look.run.session.deleted_at is None
    seen = look.words and look.run.session.deleted_at is None
    context = {"run": _shown(report["run"]), "figures": _figures(report), "report": report, "own": own, "seen": seen, "kept": kept}
    row = look.run
    holding = [] if row.status in Run.ENDED else [stop for stop in freezes.active() if stop.covers(row.session.agent, row.pk)]
    context |= {"stops": shown_stops(_user(request), holding), "may_stop": freezes.may_stop(_user(request))}
    context["calls"] = [_shown_call(call) for call in report["toolCalls"]]
    return render(request, "runs/page.html", context)


@never_cache
@require_safe
@login_required
def export(request: HttpRequest, pk: int) -> HttpResponse:
    """Summary and events as JSON, to look at them elsewhere. The page reads it where it has no socket for it."""
    look = _look(request, pk)
    name = content_disposition_header(True, f"run-{pk}.json") or ""
    headers = {"Content-Disposition": name, "X-Content-Type-Options": "nosniff"}
    return HttpResponse(b"".join(_pieces(look)), content_type="application/json", headers=headers)


def _pieces(look: Look) -> Iterator[bytes]:
    head = {"clawsite": version(), **run_reports.summary(look)}
    yield orjson.dumps(head)[:-1] + b',"events":['
    for place, event in enumerate(run_reports.all_events(look)):
        yield (b",\n" if place else b"\n") + orjson.dumps(event)
    yield b"\n]}\n"


def _user(request: HttpRequest) -> User:
    return cast("User", request.user)  # login_required


def _look(request: HttpRequest, pk: int) -> Look:
    try:
        return run_reports.look_at(_user(request), pk=pk)
    except NotFound as gone:
        raise Http404 from gone


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    status = row["status"]
    return {
        **shown_run(row),
        "status_words": STATUS_WORDS[status],
        "colour": COLOURS.get(status, ""),
        "why": reason_words(row["reason"]),
    }


def _shown_step(step: dict[str, str]) -> dict[str, Any]:
    return {**step, "words": EFFECT_WORDS.get(step["effect"], step["effect"]), "rule": rule_words(step["rule"])}


def _shown_call(call: dict[str, Any]) -> dict[str, Any]:
    return {
        **call,
        "took": duration(call["durationMs"]),
        "status_words": CALL_WORDS.get(call["status"], call["status"]),
        "why": decision_words(call["verdict"]),
        "steps": [_shown_step(step) for step in call["trace"]],
    }


def _figures(report: dict[str, Any]) -> list[tuple[Any, str, Any]]:
    """Name, value and a remark, in the order of the page."""
    row, times = report["run"], report["timings"]
    usage = row["usage"]
    waits_for = reason_words(row["reason"]) if row["status"] == Run.Status.WAITING else ""  # else it says how the run ended
    return [
        (_("Total"), duration(times["totalMs"]), ""),
        (_("Queued"), duration(times["queuedMs"]), ""),
        (_("First output"), duration(times["firstWordMs"]), _("after sending")),
        (_("Model"), duration(times["modelMs"]), row["model"] or ""),
        (_("Tools"), duration(times["toolsMs"]), _("tool calls: %d") % len(report["toolCalls"])),
        *([(_("Waited"), duration(times["waitingMs"]), waits_for)] if times["waitingMs"] else []),
        (
            _("Tokens"),
            count(usage["input"] + usage["output"]),
            _("%(input)s input, %(output)s output") % {k: count(usage[k]) for k in ("input", "output")},
        ),
        (_("Cost"), money(usage["costUsd"]), ""),
        *([(_("Trace"), "", trace_id(row["traceparent"]))] if row["traceparent"] else []),
        (_("Attempts"), count(report["attempts"]), _("recovered: %d") % row["rescues"] if row["rescues"] else ""),
    ]
