"""Read the transcript: as wire messages, and as the history given to a model."""

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

# Upper limit of earlier history given to a model. A run that fills most of it compacts first.
MAX_HISTORY_ENTRIES = 400
# A coarse prefilter; the rows read are checked exactly.
FROM_OTHERS = f"CAST(meta AS text) LIKE '%%\"{WEBHOOK_KEY}\"%%' OR CAST(meta AS text) LIKE '%%\"{TOKEN_PREFIX_KEY}\"%%'"
SUMMARY_KEY = "summary"  # role of the first entry a model sees when earlier history is summarized
INCLUDES_OTHERS_KEY = "ofOthers"  # in a compaction's meta: its summary includes text of another origin (origin.py) than its run's
SUMMARIZED_THROUGH_KEY = "summarisedThrough"  # in a compaction's meta: message ID of the last entry in its summary


def to_wire(
    role: str, content: list[dict[str, Any]], moment: dt.datetime, message_id: str, meta: dict[str, Any], run_id: str | None
) -> dict[str, Any]:
    """Convert an entry to a message: role, content blocks, timestamp and fields specific to its kind."""
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
    """An entry as the model sees it."""

    role: str
    text: str
    content: list[dict[str, Any]]  # for assistant messages, user messages with attachments, and summaries
    meta: dict[str, Any]  # for tool results and summaries; also holds the origin
    own: bool = False  # belongs to the run being answered
    position: int = 0
    message_id: str = ""
    origin: dict[str, str] = field(default_factory=dict)  # origin of its run; see origin.py


OWN_ANSWERS_KEY = "ownAnswers"  # with a summary: how many answers of the current run are only in the summary


def read_model_history(
    session_id: UUID, generation: int, run_pk: int = 0, reader: Mapping[str, str] = NO_ORIGIN
) -> list[HistoryEntry]:
    """Return the entries a model sees, oldest first: the last summary, a window of later entries, then all of this run.

    A run's entries stay together: messages injected while it was running come after it, or before it if it is this run, so that
    they don't look like answers to its prompt. Raw SQL that skips unused columns: 400 entries took 6.4 ms as model instances,
    1.3 ms this way. Notices (notices.py) are included: they report what happened outside of runs.
    A summary made by a limited run only counts for a `reader` with the same origin; others still read the original entries.
    """
    with_content = (
        "role = 'assistant' OR kind = 'compaction' OR (role = 'user' AND CAST(content AS text) LIKE '%%\"attachmentId\"%%')"
    )
    content = f"CASE WHEN {with_content} THEN content END"
    meta = f"CASE WHEN role = 'toolResult' OR kind = 'compaction' OR {FROM_OTHERS} THEN meta END"
    columns = (
        f"position, run_id, CASE WHEN kind = 'compaction' THEN '{SUMMARY_KEY}' ELSE role END, text, {content}, {meta}, message_id"
    )
    kinds = "(kind IN ('message', 'tool_result', 'compaction') OR (kind = 'session' AND role = 'notice'))"
    wanted = f"SELECT {columns} FROM {tables.ENTRY} e WHERE generation = %s AND {kinds}"
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
            HistoryEntry(
                role, text, orjson.loads(blocks or "[]"), orjson.loads(facts or "{}"), run == run_pk, position, message_id
            ),
        )
        for position, run, role, text, blocks, facts, message_id in [*before, *own]
    ]
    origins = {run: origin for run, entry in read if run is not None and (origin := origin_of_entry(entry.meta))}
    past = [
        replace(entry, origin=found) if (found := origins.get(run) or origin_of_entry(entry.meta)) else entry for run, entry in read
    ]
    counts = [entry for entry in past if entry.role != SUMMARY_KEY or not entry.origin or entry.origin == reader]
    return _after_summary(counts, is_cut=is_cut)


def _after_summary(past: list[HistoryEntry], *, is_cut: bool) -> list[HistoryEntry]:
    """Return the last summary and the entries it doesn't cover. The run's prompt always stays: the model is about to answer it.

    A summary that doesn't state its range, as in some imports, is ignored.
    """
    summaries = [(entry, _find_summarized_through(entry, past, is_cut=is_cut)) for entry in past if entry.role == SUMMARY_KEY]
    summary, through = max((one for one in summaries if one[1] is not None), key=lambda one: one[0].position, default=(None, None))
    entries = [entry for entry in past if entry.role != SUMMARY_KEY]
    if summary is None or through is None:
        while entries and is_cut and not entries[0].own and entries[0].role != "user":  # the window starts with a user message
            entries.pop(0)
        return entries
    covered = [entry for entry in entries if entry.position <= through and not (entry.own and entry.role == "user")]
    answers = sum(entry.own and entry.role == "assistant" for entry in covered)
    remaining = [entry for entry in entries if entry.position > through or (entry.own and entry.role == "user")]
    return [replace(summary, meta={**summary.meta, OWN_ANSWERS_KEY: answers}), *remaining]


def _find_summarized_through(summary: HistoryEntry, past: list[HistoryEntry], *, is_cut: bool) -> int | None:
    """Return the position a summary covers; None if unknown. If the named entry is older than the window, return 0."""
    named = summary.meta.get(SUMMARIZED_THROUGH_KEY)
    positions = [entry.position for entry in past if entry.message_id == named and entry.position < summary.position]
    return max(positions, default=0 if is_cut and isinstance(named, str) else None)


@dataclass(frozen=True, slots=True)
class MessageExcerpt:
    """A message as quoted elsewhere: its beginning, without thinking."""

    role: str
    text: str
    length: int  # of the full text
    moment: dt.datetime
    calls: list[dict[str, Any]]  # tool calls of an assistant message
    tool: str  # name of the tool, for a tool result


def read_last_messages(session: Session, *, limit: int, characters: int, with_tools: bool) -> tuple[list[MessageExcerpt], bool]:
    """Return a session's last messages, oldest first, and whether there are older ones. Without tools, only messages with text."""
    filters = "" if with_tools else "AND e.role <> 'toolResult' AND e.text <> ''"
    newest = sql.fetch_rows(
        f"""
        SELECT e.role, substr(e.text, 1, %s), length(e.text), e.created_at,
          CASE WHEN e.role = 'assistant' THEN e.content END, CASE WHEN e.role = 'toolResult' THEN e.meta END
        FROM {tables.ENTRY} e
        WHERE e.session_id = %s AND e.generation = %s
          AND e.kind IN ('message', 'tool_result') {filters} AND {visible_condition("e")}
        ORDER BY e.position DESC LIMIT %s
        """,
        [characters, sql.uuid_value(session.pk), session.generation, limit + 1],
    )
    excerpts = [
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
    return excerpts, len(newest) > limit
