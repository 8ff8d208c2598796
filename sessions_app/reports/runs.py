"""Run reports: lists, a summary with every tool call and its verdict, events page by page.

Lookups start from `for_user()`. Users who may see all runs but not the sessions can find every run and get it redacted,
as in the admin.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from django.db.models import Min
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from clawsite.infra.errors import NotFound
from sessions_app import tables
from sessions_app.models import Event, Run, RunWait, Session, ToolCall
from sessions_app.reports.redaction import redact_event_data
from sessions_app.transcript.history import MAX_REPLY_BYTES
from sessions_app.verdicts import build_trace, build_verdict

PROMPT_PREVIEW_LENGTH = 240  # characters, in a list
MAX_CALLS = 1_000  # tool calls in one summary; more than the turn limit
VIEW_RUNS_PERMISSION = "sessions_app.view_run"
VIEW_ANY_SESSION_PERMISSION = "accounts.view_any_session"


@dataclass(frozen=True, slots=True)
class RunAccess:
    """A run, the user viewing it, and whether they may read its text."""

    run: Run
    viewer: int
    may_read_text: bool


@dataclass(frozen=True, slots=True)
class RunPage:
    runs: list[dict[str, Any]]
    cursor: int | None  # to continue with older runs; None at the end


def find_viewable_run(user: User, *, pk: int | None = None, run_id: str = "", operating: bool = True) -> RunAccess:
    """Find a run by primary key, or by its owner's run ID.

    If `operating` is false, as for a token without that scope, the permission to view all runs is ignored.
    """
    lookup = {"pk": pk} if pk is not None else {"run_id": run_id}
    runs = Run.objects.filter(**lookup).select_related("session", "owner").order_by("-id")
    visible = runs.for_user(user)
    if run := visible.filter(owner=user).first() or visible.first():
        return RunAccess(run, user.pk, may_read_text=True)
    if operating and user.has_perm(VIEW_RUNS_PERMISSION) and (run := runs.first()):
        return RunAccess(run, user.pk, may_read_text=user.has_perm(VIEW_ANY_SESSION_PERMISSION))
    raise NotFound(_("Run not found: %(run)s") % {"run": run_id or pk})


def list_runs(
    user: User, *, session: Session | None = None, status: str = "", limit: int = 50, before: int | None = None
) -> RunPage:
    """List runs, newest first: those the user started, or all of a session they can see."""
    runs = Run.objects.for_user(user).filter(session=session) if session else Run.objects.for_user(user).filter(owner=user)
    if status:
        runs = runs.filter(status__in=Run.UNFINISHED if status == "unfinished" else [status])
    if before is not None:
        runs = runs.filter(pk__lt=before)
    page = list(runs.select_related("session", "owner").order_by("-id")[: limit + 1])
    waits = _read_waits(page[:limit])
    rows = [to_wire_run(RunAccess(run, user.pk, may_read_text=True), waits, shortened=True) for run in page[:limit]]
    return RunPage(rows, page[limit - 1].pk if len(page) > limit else None)


def _read_waits(runs: Sequence[Run]) -> dict[int, str]:
    return RunWait.objects.main_kinds([run.pk for run in runs if run.status == Run.Status.WAITING])


def to_wire_run(look: RunAccess, waits: Mapping[int, str], *, shortened: bool = False) -> dict[str, Any]:
    """Convert a run to its wire form. Fields the viewer may not read are empty."""
    run = look.run
    end = run.ended_at
    prompt = run.prompt[:PROMPT_PREVIEW_LENGTH] if shortened else run.prompt
    return {
        "id": run.pk,
        "runId": run.run_id,
        "sessionKey": run.session.key_for(look.viewer),
        "sessionId": str(run.session.generation_id),
        "agentId": run.session.agent,
        "title": (run.session.label or run.session.title or None) if look.may_read_text else None,
        "owner": run.owner.username,
        "lane": run.lane,
        "status": run.status,
        "reason": run.reason or waits.get(run.pk),  # why the run ended, or what it waits for
        "error": (run.error or None) if look.may_read_text else None,
        "prompt": prompt if look.may_read_text else "",
        "words": look.may_read_text,
        "model": run.model or None,
        "usage": {"input": run.input_tokens, "output": run.output_tokens, "costUsd": run.cost_microusd / 1e6},
        "acceptedAt": clock.to_ms(run.accepted_at),
        "startedAt": clock.to_ms(run.started_at) if run.started_at else None,
        "endedAt": clock.to_ms(end) if end else None,
        "durationMs": clock.to_ms(end) - clock.to_ms(run.started_at or run.accepted_at) if end else None,
        "rescues": run.rescues,
        "seq": run.seq,
        "traceparent": run.request.traceparent or None,
    }


def summarize_run(look: RunAccess) -> dict[str, Any]:
    """Return a run with its timings, retries and tool calls."""
    run = look.run
    phases = Event.objects.filter(run=run, stream="lifecycle").order_by("seq").values_list("ts", "data")
    retries = [
        {"at": ts, "kind": str(data.get("kind", "")), "attempt": data.get("attempt"), "delayMs": data.get("delayMs")}
        for ts, data in phases
        if data.get("phase") == "retry"
    ]
    calls = [_to_wire_call(call, look.may_read_text) for call in ToolCall.objects.filter(run=run).order_by("position")[:MAX_CALLS]]
    return {
        "run": to_wire_run(look, _read_waits([run])),
        "timings": _compute_timings(run, [(ts, data["phase"]) for ts, data in phases], calls),
        "attempts": 1 + run.rescues + len(retries),
        "retries": retries,
        "toolCalls": calls,
    }


def _compute_timings(run: Run, phases: list[tuple[int, str]], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Compute milliseconds spent queued, parked, in tools, and in the model (the rest). Parallel tools count once."""
    accepted = clock.to_ms(run.accepted_at)
    started = clock.to_ms(run.started_at) if run.started_at else None
    end = clock.to_ms(run.ended_at) if run.ended_at else clock.now_ms()
    parked, since = 0, None
    for ts, phase in phases:
        if phase == "waiting":
            since = ts
        elif since is not None:
            parked, since = parked + ts - since, None
    parked += end - since if since is not None else 0
    tools = _measure_union([(call["startedAt"], call["endedAt"] or end) for call in calls if call["startedAt"]])
    first = Event.objects.filter(run=run, stream__in=["assistant", "thinking"]).aggregate(ts=Min("ts"))["ts"]
    return {
        "queuedMs": max(0, (started or end) - accepted),
        "waitingMs": parked,
        "toolsMs": tools,
        "modelMs": max(0, end - started - parked - tools) if started else 0,
        "firstWordMs": first - accepted if first else None,
        "totalMs": max(0, end - accepted),
    }


def _measure_union(spans: list[tuple[int, int]]) -> int:
    """Return the time covered by at least one of the spans."""
    total, reached = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _to_wire_call(call: ToolCall, words: bool) -> dict[str, Any]:
    facts = {"name": call.name, "status": call.status, "refused_by": call.refused_by, "verdict": call.verdict}
    started = clock.to_ms(call.started_at) if call.started_at else None
    ended = clock.to_ms(call.ended_at) if call.ended_at else None
    return {
        "callId": call.call_id,
        "name": call.name,
        "status": call.status,
        "isError": call.is_error,
        "arguments": call.arguments if words else None,
        "verdict": build_verdict(facts),
        "trace": build_trace(call.verdict, call.name),
        "policyVersion": call.policy_version,
        "startedAt": started,
        "endedAt": ended,
        "durationMs": ended - started if started and ended else None,
    }


def list_events(look: RunAccess, *, after: int = 0, limit: int = 500) -> tuple[list[dict[str, Any]], bool]:
    """Return events with a higher number, in order, as many as fit in one reply; and whether there are more."""
    events: list[dict[str, Any]] = []
    room = MAX_REPLY_BYTES
    for event, size in _read_events(look, after, limit + 1):
        room -= size
        if len(events) == limit or (room < 0 and events):
            return events, True
        events.append(event)
    return events, False


def iterate_events(look: RunAccess) -> Iterator[dict[str, Any]]:
    """Yield every stored event, for an export."""
    after = 0
    while page := list(_read_events(look, after, 1_000)):
        yield from (event for event, _size in page)
        after = page[-1][0]["seq"]


def has_stored_events(run: Run) -> bool:
    """Return whether the log still has the run's events: old ones are deleted."""
    return run.seq == 0 or Event.objects.filter(run=run).exists()


def _read_events(look: RunAccess, after: int, limit: int) -> Iterator[tuple[dict[str, Any], int]]:
    rows = sql.fetch_rows(
        f"SELECT seq, cursor, stream, ts, data FROM {tables.EVENT} WHERE run_id = %s AND seq > %s ORDER BY seq LIMIT %s",
        [look.run.pk, after, limit],
    )
    for seq, cursor, stream, ts, text in rows:
        data = orjson.loads(text)
        shown = data if look.may_read_text else redact_event_data(data)
        size = len(text if text.isascii() else text.encode()) + 200
        yield {"seq": seq, "cursor": cursor, "stream": stream, "ts": ts, "data": shown}, size
