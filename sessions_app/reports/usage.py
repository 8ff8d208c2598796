"""Usage per session and run, and a session's last messages, shortened, with the usage of each."""

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired
from uuid import UUID

import orjson
from django.db.models import Count, Max, Min, QuerySet, Sum
from django.db.models.functions import TruncDate
from typing_extensions import TypedDict

from clawsite.infra import clock, sql
from sessions_app import tables
from sessions_app.models import Run, Session, ToolCall, TranscriptEntry
from sessions_app.reports.operations import UsageTotals
from sessions_app.transcript.history import MAX_REPLY_BYTES, MESSAGE_KINDS
from sessions_app.transcript.rewinds import visible_condition

MAX_CHARACTERS = 2_000  # per message


class LogEntry(TypedDict):
    """`content` is the beginning of the text, then a line `[Tool: name]` for each call. `cost`, if known, is in US dollars."""

    timestamp: int
    role: Literal["user", "assistant", "toolResult"]
    content: str
    tokens: NotRequired[int]
    cost: NotRequired[float]


def read_usage_log(session: Session, limit: int) -> list[LogEntry]:
    """Return the newest messages, oldest first; fewer than requested if they would not fit in one reply."""
    # Tool results are large, so only their text is read.
    rows = sql.fetch_rows(
        f"""
        SELECT e.created_at, e.kind, e.role, substr(e.text, 1, {MAX_CHARACTERS}),
          CASE WHEN e.kind = 'message' THEN e.content ELSE '[]' END, e.meta
        FROM {tables.ENTRY} e WHERE e.session_id = %s AND e.generation = %s
          AND e.kind IN {MESSAGE_KINDS} AND {visible_condition("e")}
        ORDER BY e.position DESC LIMIT %s
        """,
        [sql.uuid_value(session.pk), session.generation, limit],
    )
    entries, room = [], MAX_REPLY_BYTES
    for row in rows:
        entry = _to_log_entry(*row)
        room -= len(orjson.dumps(entry))
        if room < 0:
            break
        entries.append(entry)
    return entries[::-1]


def _to_log_entry(moment: Any, kind: str, role: str, text: str, content: str, meta: str) -> LogEntry:
    lines = [text, *(f"[Tool: {block['name']}]" for block in orjson.loads(content) if block.get("type") == "toolCall")]
    entry = LogEntry(
        timestamp=clock.to_ms(sql.as_datetime(moment)),
        role="toolResult" if kind == TranscriptEntry.Kind.TOOL_RESULT else "user" if role == "user" else "assistant",
        content="\n".join(filter(None, lines)),
    )
    if isinstance(used := orjson.loads(meta).get("usage"), dict):
        entry["tokens"] = used.get("input", 0) + used.get("output", 0)
        if isinstance(cost := used.get("costMicroUsd"), int):
            entry["cost"] = cost / 1e6
    return entry


@dataclass(slots=True)
class SessionUsage:
    """Usage of one session. `messages` counts by role, including tool results; `tools` counts calls by name."""

    session: Session
    total: UsageTotals = field(default_factory=UsageTotals)
    days: dict[dt.date, UsageTotals] = field(default_factory=dict)
    models: dict[str, UsageTotals] = field(default_factory=dict)
    messages: Counter[str] = field(default_factory=Counter)
    tools: Counter[str] = field(default_factory=Counter)
    tool_errors: int = 0
    first: dt.datetime | None = None
    last: dt.datetime | None = None


def list_session_usage(runs: QuerySet[Run], limit: int, zone: dt.tzinfo = dt.UTC) -> list[SessionUsage]:
    """List the most recently used sessions of these runs, with the runs' usage in each."""
    latest = runs.values("session").annotate(last=Max("accepted_at")).order_by("-last", "session")[:limit]
    ids: list[UUID] = [row["session"] for row in latest]
    sessions = Session.objects.in_bulk(ids)
    usages = {pk: SessionUsage(sessions[pk]) for pk in ids if pk in sessions}
    ours = runs.filter(session__in=list(usages))
    _add_runs(usages, ours, zone)
    _add_messages(usages, ours)
    _add_tools(usages, ours)
    return list(usages.values())


def list_run_usage(runs: QuerySet[Run], limit: int) -> Sequence[Mapping[str, Any]]:
    """Return the usage of the newest runs, oldest first."""
    newest = runs.order_by("-id").values("accepted_at", "input_tokens", "output_tokens", "cost_microusd")[:limit]
    return list(newest)[::-1]


def _add_runs(found: dict[UUID, SessionUsage], runs: QuerySet[Run], zone: dt.tzinfo) -> None:
    rows = runs.values("session", "model", "status", day=TruncDate("accepted_at", tzinfo=zone)).annotate(
        runs=Count("id"),
        input=Sum("input_tokens"),
        output=Sum("output_tokens"),
        cost=Sum("cost_microusd"),
        first=Min("accepted_at"),
        last=Max("accepted_at"),
    )
    for row in rows:
        usage = found[row["session"]]
        failed = row["runs"] if row["status"] == Run.Status.FAILED else 0
        used = UsageTotals(row["runs"], failed, row["input"], row["output"], row["cost"])
        for place in (
            usage.total,
            usage.days.setdefault(row["day"], UsageTotals()),
            usage.models.setdefault(row["model"], UsageTotals()),
        ):
            place.add(used)
        usage.first = min(filter(None, (usage.first, row["first"])))
        usage.last = max(filter(None, (usage.last, row["last"])))
    for usage in found.values():
        usage.models.pop("", None)  # runs that never reached a model
        usage.days = dict(sorted(usage.days.items()))


def _add_messages(found: dict[UUID, SessionUsage], runs: QuerySet[Run]) -> None:
    entries = TranscriptEntry.objects.filter(
        run__in=runs, kind__in=[TranscriptEntry.Kind.MESSAGE, TranscriptEntry.Kind.TOOL_RESULT]
    )
    for session, kind, role, count in entries.values_list("session", "kind", "role").annotate(count=Count("id")):
        found[session].messages["toolResult" if kind == TranscriptEntry.Kind.TOOL_RESULT else role] += count


def _add_tools(found: dict[UUID, SessionUsage], runs: QuerySet[Run]) -> None:
    called = ToolCall.objects.filter(run__in=runs)
    for session, name, is_error, count in called.values_list("session", "name", "is_error").annotate(count=Count("id")):
        found[session].tools[name] += count
        found[session].tool_errors += count if is_error else 0
