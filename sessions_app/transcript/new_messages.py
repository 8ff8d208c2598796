"""Read new transcript messages, for clients that follow a session message by message."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clawsite.infra import clock, sql
from sessions_app.models import Run, Session
from sessions_app.transcript.history import MAX_POSITION, MESSAGE_KINDS, read_entries
from sessions_app.transcript.message_details import read_author_names, read_call_details, to_wire_messages


@dataclass(frozen=True, slots=True)
class NewMessages:
    """Messages in order, each with the primary key of its run; `session` holds the fields sent with them."""

    messages: list[dict[str, Any]]
    runs: list[int | None]
    session: dict[str, Any]


def read_new_messages(session_id: str, runs: Mapping[int, int], message_ids: Sequence[str]) -> NewMessages | None:
    """Return messages of these runs after a position each, plus the given messages; None if the session was deleted."""
    session = Session.objects.filter(pk=session_id, deleted_at__isnull=True).first()
    if session is None:
        return None
    conditions = ["(e.run_id = %s AND e.position > %s)"] * len(runs)
    values: list[Any] = [value for pair in runs.items() for value in pair]
    if message_ids:
        conditions.append(f"e.message_id IN ({sql.placeholders(message_ids)})")
        values += message_ids
    rows, _, _ = read_entries(session, MESSAGE_KINDS, f"({' OR '.join(conditions)})", "", MAX_POSITION - 1, MAX_POSITION, values)
    messages = to_wire_messages(
        rows, read_call_details(rows), notices=False, names=read_author_names(session, {row.writer for row in rows if row.writer})
    )
    at_work = Run.objects.filter(session=session, status__in=(Run.Status.RUNNING, Run.Status.WAITING))
    facts = {
        "key": session.key,
        "sessionId": str(session.generation_id),
        "agentId": session.agent,
        "updatedAt": clock.to_ms(session.updated_at),
        "activeRunIds": list(at_work.values_list("run_id", flat=True)),
    }
    return NewMessages(messages, [row.run_pk for row in rows], facts)
