"""The last messages of a session with what each has used, shortened, for a list beside its figures."""

from typing import Any, Literal, NotRequired

import orjson
from typing_extensions import TypedDict

from clawsite.infra import clock
from sessions_app import sql
from sessions_app.history import SHOWN
from sessions_app.models import Session, TranscriptEntry
from sessions_app.rewinds import visible
from sessions_app.selectors import LARGEST_REPLY

CHARACTERS = 2_000  # of each message


class LogEntry(TypedDict):
    """`content` is the beginning of the words, then a line `[Tool: name]` for each call. `cost`, where known, is in US dollars."""

    timestamp: int
    role: Literal["user", "assistant", "toolResult"]
    content: str
    tokens: NotRequired[int]
    cost: NotRequired[float]


def usage_log(session: Session, limit: int) -> list[LogEntry]:
    """The newest ones, oldest first; fewer than asked for where they would not fit one reply."""
    # Results of tools are large, and their words are all that is told of them.
    found = sql.rows(
        f"""
        SELECT e.created_at, e.kind, e.role, substr(e.text, 1, {CHARACTERS}),
          CASE WHEN e.kind = 'message' THEN e.content ELSE '[]' END, e.meta
        FROM {sql.ENTRY} e WHERE e.session_id = %s AND e.generation = %s AND e.kind IN {SHOWN} AND {visible("e")}
        ORDER BY e.position DESC LIMIT %s
        """,
        [sql.uuid_value(session.pk), session.generation, limit],
    )
    entries, room = [], LARGEST_REPLY
    for row in found:
        entry = _entry(*row)
        room -= len(orjson.dumps(entry))
        if room < 0:
            break
        entries.append(entry)
    return entries[::-1]


def _entry(moment: Any, kind: str, role: str, text: str, content: str, meta: str) -> LogEntry:
    lines = [text, *(f"[Tool: {block['name']}]" for block in orjson.loads(content) if block.get("type") == "toolCall")]
    entry = LogEntry(
        timestamp=clock.to_ms(sql.as_moment(moment)),
        role="toolResult" if kind == TranscriptEntry.Kind.TOOL_RESULT else "user" if role == "user" else "assistant",
        content="\n".join(filter(None, lines)),
    )
    if isinstance(used := orjson.loads(meta).get("usage"), dict):
        entry["tokens"] = used.get("input", 0) + used.get("output", 0)
        if isinstance(cost := used.get("costMicroUsd"), int):
            entry["cost"] = cost / 1e6
    return entry
