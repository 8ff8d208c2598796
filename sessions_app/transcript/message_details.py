"""What the chat shows about a message besides its text: cost, duration, why a tool was allowed, how a run ended."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from sessions_app import tables
from sessions_app.models import Run, Session, SessionMember, ToolCall
from sessions_app.transcript.messages import to_wire
from sessions_app.verdicts import build_verdict

MAX_PROMPT_CHARACTERS, MAX_UNSTARTED = 1_000, 20


@dataclass(frozen=True, slots=True)
class TranscriptRow:
    """A transcript entry as read from the database; run fields are only set on the run's last entry."""

    position: int
    kind: str
    role: str
    content: list[dict[str, Any]]
    moment: dt.datetime
    message_id: str
    meta: dict[str, Any]
    text: str
    run_pk: int | None
    run_id: str | None
    run_status: str | None  # empty unless this is the run's last entry
    reason: str | None
    error: str | None
    started_at: Any
    ended_at: Any
    writer: int | None  # user who started the run


CallDetails = dict[tuple[int | None, str], dict[str, Any]]


def read_call_details(rows: Sequence[TranscriptRow]) -> CallDetails:
    """Map (run, call ID) to the verdict, start and duration of tool calls whose results are among the rows."""
    run_pks = {row.run_pk for row in rows if row.kind == "tool_result" and row.run_pk}
    calls = ToolCall.objects.filter(run__in=run_pks) if run_pks else ToolCall.objects.none()
    columns = ("run_id", "call_id", "name", "status", "refused_by", "verdict", "started_at", "ended_at")
    return {(call["run_id"], call["call_id"]): _to_call_details(call) for call in calls.values(*columns)}


def _to_call_details(call: dict[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"verdict": build_verdict(call)}
    if call["started_at"]:
        facts["startedAt"] = clock.to_ms(call["started_at"])
        if call["ended_at"]:
            facts["durationMs"] = _milliseconds(call["started_at"], call["ended_at"])
    return facts


def to_wire_messages(
    rows: Sequence[TranscriptRow], calls: CallDetails, *, notices: bool, names: Mapping[int, str]
) -> list[dict[str, Any]]:
    """Convert rows to wire messages with their details; with `notices`, also include what happened between them."""
    messages = []
    for row in rows:
        is_mark = row.kind in ("compaction", "session")
        messages.append(_build_stored_notice(row) if is_mark else to_wire_message(row, calls))
        if row.role == "user" and row.writer is not None and row.writer in names:
            messages[-1]["sender"] = names[row.writer]
        if notices and row.run_status in (Run.Status.FAILED, Run.Status.ABORTED):
            messages.append(_build_end_notice(row))
    return messages


def to_wire_message(row: TranscriptRow, calls: CallDetails) -> dict[str, Any]:
    message = to_wire(row.role, row.content, row.moment, row.message_id, row.meta, row.run_id)
    message["position"] = row.position
    usage = row.meta.get("usage")
    if isinstance(usage, dict) and isinstance(usage.get("costMicroUsd"), int):
        message["usage"] = {**usage, "costUsd": usage["costMicroUsd"] / 1e6}
    if row.run_status in Run.ENDED and row.started_at and row.ended_at:
        message["durationMs"] = _milliseconds(sql.as_datetime(row.started_at), sql.as_datetime(row.ended_at))
    if row.kind == "tool_result":
        message.update(calls.get((row.run_pk, str(row.meta.get("toolCallId"))), {}))
    return message


def _build_stored_notice(row: TranscriptRow) -> dict[str, Any]:
    """Build a notice from a stored mark: a compaction summary, a reset, or another `change`."""
    name = "compaction" if row.kind == "compaction" else str(row.meta.get("change", "session"))
    facts = {key: value for key, value in row.meta.items() if key != "change"}
    notice = _build_notice(row, name, row.message_id, row.text, facts)
    if row.kind == "compaction":
        notice["content"] = row.content  # the summary is readable, so it is sent like an answer
        if row.run_id:
            notice["runId"] = row.run_id
    return notice


def _build_end_notice(row: TranscriptRow) -> dict[str, Any]:
    """Report after its last entry that a run ended abnormally."""
    name = "aborted" if row.run_status == Run.Status.ABORTED else "failed"
    facts = {"runId": row.run_id, "errorKind": row.reason or ""}
    moment = sql.as_datetime(row.ended_at) if row.ended_at else row.moment
    return {**_build_notice(row, name, f"{row.message_id}-end", row.error or "", facts), "timestamp": clock.to_ms(moment)}


def list_unstarted_prompts(session: Session, first: int, last: int) -> list[dict[str, Any]]:
    """List prompts stopped before they started, placed after the last entry of the preceding run because they have no entry.

    Only those between two positions. Recalled prompts and prompts before a rewind are left out.
    """
    rows = sql.fetch_rows(
        f"""
        SELECT * FROM (
          SELECT r.id, r.run_id, r.status, r.reason, r.error, r.ended_at, substr(r.prompt, 1, {MAX_PROMPT_CHARACTERS}),
            r.accepted_at, r.owner_id,
            coalesce((
              SELECT max(e.position) FROM {tables.ENTRY} e WHERE e.run_id = (
                SELECT q.id FROM {tables.RUN} q WHERE q.session_id = r.session_id AND q.id < r.id AND q.steps > 0
                ORDER BY q.id DESC LIMIT 1
              )
            ), 0) AS place
          FROM {tables.RUN} r WHERE r.session_id = %s AND r.generation = %s AND r.steps = 0 AND r.status IN ('aborted', 'error')
          AND r.reason <> '{Run.WITHDRAWN}'
        ) AS unbegun
        WHERE place BETWEEN %s AND %s AND NOT EXISTS (
          SELECT 1 FROM {tables.ENTRY} w WHERE w.session_id = %s AND w.generation = %s AND w.kind = 'rewind'
          AND w.position > place AND w.keep_through < place AND w.created_at > unbegun.accepted_at
        ) ORDER BY id DESC LIMIT {MAX_UNSTARTED}
        """,
        [sql.uuid_value(session.pk), session.generation, first, last, sql.uuid_value(session.pk), session.generation],
    )
    names = read_author_names(session, {row[8] for row in rows})
    return [
        {
            "role": "notice",
            "notice": "aborted" if status == Run.Status.ABORTED else "failed",
            "content": [],
            "text": error,
            "errorKind": reason,
            "prompt": prompt,
            "runId": run_id,
            "timestamp": clock.to_ms(sql.as_datetime(ended_at)),
            "messageId": f"run-{pk}-end",
            "position": position,
            **({"sender": names[writer]} if writer in names else {}),
        }
        for pk, run_id, status, reason, error, ended_at, prompt, _, writer, position in reversed(rows)
    ]


def _build_notice(row: TranscriptRow, name: str, message_id: str, text: str, facts: dict[str, Any]) -> dict[str, Any]:
    return {
        **facts,
        "role": "notice",
        "notice": name,
        "content": [],
        "text": text,
        "timestamp": clock.to_ms(row.moment),
        "messageId": message_id,
        "position": row.position,
    }


def _milliseconds(start: dt.datetime, end: dt.datetime) -> int:
    return max(0, int((end - start).total_seconds() * 1000))


def read_author_names(session: Session, user_pks: set[int]) -> dict[int, str]:
    """Return author names for a shared session; empty if the session is not shared."""
    if not user_pks or (not SessionMember.objects.filter(session=session).exists() and user_pks == {session.owner_id}):
        return {}
    return dict(User.objects.filter(pk__in=user_pks).values_list("pk", "username"))
