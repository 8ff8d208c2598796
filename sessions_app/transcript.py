"""Reading the transcript: as messages on the wire, and as the history a model is given."""

import datetime as dt
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from clawsite.infra import clock
from sessions_app import sql
from sessions_app.models import Session
from sessions_app.rewinds import visible

# What a model is given at most; older turns are left out (compaction will summarise them instead).
HISTORY_ENTRIES = 400


def to_wire(
    role: str, content: list[dict[str, Any]], moment: dt.datetime, message_id: str, meta: dict[str, Any], run_id: str | None
) -> dict[str, Any]:
    """One entry as a message: role, content blocks, timestamp and whatever its kind adds."""
    message: dict[str, Any] = {
        "role": role,
        "content": content,
        "timestamp": clock.to_ms(moment),
        "messageId": message_id,
        **meta,
    }
    if run_id:
        message["runId"] = run_id
    return message


@dataclass(frozen=True, slots=True)
class PastEntry:
    """What a model is told of an entry."""

    role: str
    text: str
    content: list[dict[str, Any]]  # of an assistant's message, and of a user's with attachments
    meta: dict[str, Any]  # of a tool's result only


def model_history(session_id: UUID, generation: int, run_pk: int = 0) -> list[PastEntry]:
    """The entries a model sees, oldest first: a window of what was before, then all of this run.

    A run's entries stay together: words put in from outside while it was going on come behind it, or before it if it is
    this one, which they must not seem to answer. As SQL, and without reading what is not used: 400 entries took 6.4 ms as
    model instances, 1.3 ms so.
    """
    with_content = "role = 'assistant' OR (role = 'user' AND CAST(content AS text) LIKE '%%\"attachmentId\"%%')"
    content, meta = f"CASE WHEN {with_content} THEN content END", "CASE WHEN role = 'toolResult' THEN meta END"
    columns = f"position, run_id, role, text, {content}, {meta}"
    wanted = f"SELECT {columns} FROM {sql.ENTRY} e WHERE generation = %s AND kind IN ('message', 'tool_result')"
    own = sql.rows(f"{wanted} AND run_id = %s ORDER BY position", [generation, run_pk])
    others = f"session_id = %s AND (run_id IS NULL OR run_id <> %s) AND {visible('e')}"
    before = sql.rows(
        f"{wanted} AND {others} ORDER BY position DESC LIMIT %s",
        [generation, sql.uuid_value(session_id), run_pk, HISTORY_ENTRIES],
    )
    is_cut = len(before) == HISTORY_ENTRIES
    began: dict[int | None, int] = {run: position for position, run, *_ in before}  # the oldest is read last
    before.sort(key=lambda row: (row[0] if row[1] is None else began[row[1]], row[0]))
    while before and is_cut and before[0][2] != "user":  # the window begins with a user's message
        before.pop(0)
    return [
        PastEntry(role, text, orjson.loads(content) if content else [], orjson.loads(meta) if meta else {})
        for _, _, role, text, content, meta in [*before, *own]
    ]


@dataclass(frozen=True, slots=True)
class Said:
    """A message as it is told elsewhere: its beginning, without thinking."""

    role: str
    text: str
    length: int  # of the whole text
    moment: dt.datetime
    calls: list[dict[str, Any]]  # that an assistant's message asks for
    tool: str  # whose result it is


def last_said(session: Session, *, limit: int, characters: int, with_tools: bool) -> tuple[list[Said], bool]:
    """The last messages of a session, oldest first, and whether there are older ones. Without tools: only what has words."""
    wanted = "" if with_tools else "AND e.role <> 'toolResult' AND e.text <> ''"
    newest = sql.rows(
        f"""
        SELECT e.role, substr(e.text, 1, %s), length(e.text), e.created_at,
          CASE WHEN e.role = 'assistant' THEN e.content END, CASE WHEN e.role = 'toolResult' THEN e.meta END
        FROM {sql.ENTRY} e
        WHERE e.session_id = %s AND e.generation = %s AND e.kind IN ('message', 'tool_result') {wanted} AND {visible("e")}
        ORDER BY e.position DESC LIMIT %s
        """,
        [characters, sql.uuid_value(session.pk), session.generation, limit + 1],
    )
    said = [
        Said(
            role,
            text,
            length,
            sql.as_moment(moment),
            [block for block in orjson.loads(content or "[]") if with_tools and block.get("type") == "toolCall"],
            orjson.loads(meta)["toolName"] if meta else "",
        )
        for role, text, length, moment, content, meta in reversed(newest[:limit])
    ]
    return said, len(newest) > limit
