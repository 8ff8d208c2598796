"""Reading the transcript: as messages on the wire, and as the history a model is given."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import orjson

from clawsite.infra import clock, sql
from sessions_app import tables
from sessions_app.models import Session
from sessions_app.origin import NO_ORIGIN, TOKEN_PREFIX_KEY, WEBHOOK_KEY, origin_of_entry
from sessions_app.transcript.rewinds import visible_condition

# What a model is given at most of what was before its run. A run that finds most of it filled summarises first.
MAX_HISTORY_ENTRIES = 400
# A first look; what is read is looked at properly.
FROM_OTHERS = f"CAST(meta AS text) LIKE '%%\"{WEBHOOK_KEY}\"%%' OR CAST(meta AS text) LIKE '%%\"{TOKEN_PREFIX_KEY}\"%%'"
SUMMARY_KEY = "summary"  # role of the first entry a model sees where what was before is summarised
INCLUDES_OTHERS_KEY = (
    "ofOthers"  # in the meta of a compaction: words of others (origin.py) are in its summary, though not its run's
)
SUMMARIZED_THROUGH_KEY = "summarisedThrough"  # in the meta of a compaction: the message id of the last entry that is in its summary


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
class HistoryEntry:
    """What a model is told of an entry."""

    role: str
    text: str
    content: list[dict[str, Any]]  # of an assistant's message, of a user's with attachments, and of a summary
    meta: dict[str, Any]  # of a tool's result, of a summary, and what says whose words they are
    own: bool = False  # of the run that is asked about
    position: int = 0
    message_id: str = ""
    origin: dict[str, str] = field(default_factory=dict)  # whose words its run was about; see origin.py


OWN_ANSWERS_KEY = "ownAnswers"  # told with a summary: how many answers of the run that is asked about are only in it


def read_model_history(
    session_id: UUID, generation: int, run_pk: int = 0, reader: Mapping[str, str] = NO_ORIGIN
) -> list[HistoryEntry]:
    """The entries a model sees, oldest first: the last summary, a window of what came after it, then all of this run.

    A run's entries stay together: words put in from outside while it was going on come behind it, or before it if it is
    this one, which they must not seem to answer. As SQL, and without reading what is not used: 400 entries took 6.4 ms as
    model instances, 1.3 ms so. Notices (notices.py) are among them: what happened meanwhile outside of runs.
    What a limited run has summarised counts for a `reader` of its own origin only: others still have the originals.
    """
    with_content = (
        "role = 'assistant' OR kind = 'compaction' OR (role = 'user' AND CAST(content AS text) LIKE '%%\"attachmentId\"%%')"
    )
    content = f"CASE WHEN {with_content} THEN content END"
    meta = f"CASE WHEN role = 'toolResult' OR kind = 'compaction' OR {FROM_OTHERS} THEN meta END"
    columns = (
        f"position, run_id, CASE WHEN kind = 'compaction' THEN '{SUMMARY_KEY}' ELSE role END, text, {content}, {meta}, message_id"
    )
    seen = "(kind IN ('message', 'tool_result', 'compaction') OR (kind = 'session' AND role = 'notice'))"
    wanted = f"SELECT {columns} FROM {tables.ENTRY} e WHERE generation = %s AND {seen}"
    own = sql.fetch_rows(f"{wanted} AND run_id = %s ORDER BY position", [generation, run_pk])
    others = f"session_id = %s AND (run_id IS NULL OR run_id <> %s) AND {visible_condition('e')}"
    before = sql.fetch_rows(
        f"{wanted} AND {others} ORDER BY position DESC LIMIT %s",
        [generation, sql.uuid_value(session_id), run_pk, MAX_HISTORY_ENTRIES],
    )
    is_cut = len(before) == MAX_HISTORY_ENTRIES
    began: dict[int | None, int] = {run: position for position, run, *_ in before}  # the oldest is read last
    before.sort(key=lambda row: (row[0] if row[1] is None else began[row[1]], row[0]))
    read = [
        (
            run,
            HistoryEntry(role, text, orjson.loads(words or "[]"), orjson.loads(facts or "{}"), run == run_pk, position, message_id),
        )
        for position, run, role, text, words, facts, message_id in [*before, *own]
    ]
    origins = {run: origin for run, entry in read if run is not None and (origin := origin_of_entry(entry.meta))}
    past = [
        replace(entry, origin=found) if (found := origins.get(run) or origin_of_entry(entry.meta)) else entry for run, entry in read
    ]
    counts = [entry for entry in past if entry.role != SUMMARY_KEY or not entry.origin or entry.origin == reader]
    return _after_summary(counts, is_cut=is_cut)


def _after_summary(past: list[HistoryEntry], *, is_cut: bool) -> list[HistoryEntry]:
    """The last summary and what is not in it. The prompt of the run stays: the model is about to answer it.

    A summary that does not say how far it goes, as an imported one may, counts for nothing.
    """
    found = [(entry, _find_summarized_through(entry, past, is_cut=is_cut)) for entry in past if entry.role == SUMMARY_KEY]
    summary, through = max((one for one in found if one[1] is not None), key=lambda one: one[0].position, default=(None, None))
    entries = [entry for entry in past if entry.role != SUMMARY_KEY]
    if summary is None or through is None:
        while entries and is_cut and not entries[0].own and entries[0].role != "user":  # the window begins with a user's message
            entries.pop(0)
        return entries
    gone = [entry for entry in entries if entry.position <= through and not (entry.own and entry.role == "user")]
    answers = sum(entry.own and entry.role == "assistant" for entry in gone)
    kept = [entry for entry in entries if entry.position > through or (entry.own and entry.role == "user")]
    return [replace(summary, meta={**summary.meta, OWN_ANSWERS_KEY: answers}), *kept]


def _find_summarized_through(summary: HistoryEntry, past: list[HistoryEntry], *, is_cut: bool) -> int | None:
    """The position up to which it goes; None when that is nowhere. What it names may be older than the window: 0 then."""
    named = summary.meta.get(SUMMARIZED_THROUGH_KEY)
    places = [entry.position for entry in past if entry.message_id == named and entry.position < summary.position]
    return max(places, default=0 if is_cut and isinstance(named, str) else None)


@dataclass(frozen=True, slots=True)
class MessageExcerpt:
    """A message as it is told elsewhere: its beginning, without thinking."""

    role: str
    text: str
    length: int  # of the whole text
    moment: dt.datetime
    calls: list[dict[str, Any]]  # that an assistant's message asks for
    tool: str  # whose result it is


def read_last_messages(session: Session, *, limit: int, characters: int, with_tools: bool) -> tuple[list[MessageExcerpt], bool]:
    """The last messages of a session, oldest first, and whether there are older ones. Without tools: only what has words."""
    wanted = "" if with_tools else "AND e.role <> 'toolResult' AND e.text <> ''"
    newest = sql.fetch_rows(
        f"""
        SELECT e.role, substr(e.text, 1, %s), length(e.text), e.created_at,
          CASE WHEN e.role = 'assistant' THEN e.content END, CASE WHEN e.role = 'toolResult' THEN e.meta END
        FROM {tables.ENTRY} e
        WHERE e.session_id = %s AND e.generation = %s AND e.kind IN ('message', 'tool_result') {wanted} AND {visible_condition("e")}
        ORDER BY e.position DESC LIMIT %s
        """,
        [characters, sql.uuid_value(session.pk), session.generation, limit + 1],
    )
    said = [
        MessageExcerpt(
            role,
            text,
            length,
            sql.as_datetime(moment),
            [block for block in orjson.loads(content or "[]") if with_tools and block.get("type") == "toolCall"],
            orjson.loads(meta)["toolName"] if meta else "",
        )
        for role, text, length, moment, content, meta in reversed(newest[:limit])
    ]
    return said, len(newest) > limit
