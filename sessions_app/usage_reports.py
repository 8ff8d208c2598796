"""What single sessions have used: tokens, cost, messages, tools and models, by session and by day.

Sums over everything are in operation_reports. Whose runs are counted is the caller's business.
"""

import datetime as dt
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Min, QuerySet, Sum
from django.db.models.functions import TruncDate

from sessions_app.models import Run, Session, ToolCall, TranscriptEntry
from sessions_app.operation_reports import Used


@dataclass(slots=True)
class SessionUsage:
    """One session's share. `messages` counts by role, tool results among them; `tools` calls by name."""

    session: Session
    total: Used = field(default_factory=Used)
    days: dict[dt.date, Used] = field(default_factory=dict)
    models: dict[str, Used] = field(default_factory=dict)
    messages: Counter[str] = field(default_factory=Counter)
    tools: Counter[str] = field(default_factory=Counter)
    tool_errors: int = 0
    first: dt.datetime | None = None
    last: dt.datetime | None = None


def session_usage(runs: QuerySet[Run], limit: int, zone: dt.tzinfo = dt.UTC) -> list[SessionUsage]:
    """The sessions of these runs that were used last, with what the runs have used in each."""
    latest = runs.values("session").annotate(last=Max("accepted_at")).order_by("-last", "session")[:limit]
    ids: list[UUID] = [row["session"] for row in latest]
    sessions = Session.objects.in_bulk(ids)
    found = {pk: SessionUsage(sessions[pk]) for pk in ids if pk in sessions}
    ours = runs.filter(session__in=list(found))
    _add_runs(found, ours, zone)
    _add_messages(found, ours)
    _add_tools(found, ours)
    return list(found.values())


def run_series(runs: QuerySet[Run], limit: int) -> Sequence[Mapping[str, Any]]:
    """What each run has used, the newest ones, oldest first."""
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
        used = Used(row["runs"], failed, row["input"], row["output"], row["cost"])
        for place in (usage.total, usage.days.setdefault(row["day"], Used()), usage.models.setdefault(row["model"], Used())):
            place.add(used)
        usage.first = min(filter(None, (usage.first, row["first"])))
        usage.last = max(filter(None, (usage.last, row["last"])))
    for usage in found.values():
        usage.models.pop("", None)  # runs that never got to one
        usage.days = dict(sorted(usage.days.items()))


def _add_messages(found: dict[UUID, SessionUsage], runs: QuerySet[Run]) -> None:
    said = TranscriptEntry.objects.filter(run__in=runs, kind__in=[TranscriptEntry.Kind.MESSAGE, TranscriptEntry.Kind.TOOL_RESULT])
    for session, kind, role, count in said.values_list("session", "kind", "role").annotate(count=Count("id")):
        found[session].messages["toolResult" if kind == TranscriptEntry.Kind.TOOL_RESULT else role] += count


def _add_tools(found: dict[UUID, SessionUsage], runs: QuerySet[Run]) -> None:
    called = ToolCall.objects.filter(run__in=runs)
    for session, name, is_error, count in called.values_list("session", "name", "is_error").annotate(count=Count("id")):
        found[session].tools[name] += count
        found[session].tool_errors += count if is_error else 0
