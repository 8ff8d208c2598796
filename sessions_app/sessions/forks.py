"""Fork a session: copy its visible entries, up to a message, into the user's own session."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from django.db import IntegrityError, transaction

from clawsite.accounts.models import User
from clawsite.infra import clock
from sessions_app.events import announce as events
from sessions_app.events import journal
from sessions_app.events.journal import EntryPosition, NewEntry, NewEvent
from sessions_app.models import Session, SessionMark
from sessions_app.sessions import attachments
from sessions_app.sessions.jsonl import NON_META_FIELDS
from sessions_app.transcript.history import MAX_POSITION, read_rows_after
from sessions_app.transcript.message_details import CallDetails, TranscriptRow, read_call_details, to_wire_message
from sessions_app.transcript.prompt_content import list_attachment_ids
from sessions_app.transcript.rewinds import find_message_position

PAGE_SIZE = 200
COPIED_FIELDS = ("agent", "channel", "title", "model", "thinking_level", "verbose_level", "settings")


@transaction.atomic
def fork_session(
    user: User, session: Session, message_id: str | None = None, *, key: str = "", origin: dict[str, Any] | None = None
) -> Session:
    """Create a session with the visible entries through that message, or all. Anyone who can see a session can fork it.

    The copies belong to no run; details known from their runs and tool calls are written into them. Without a key, a new one is
    generated; if another process has just created the key, its session is returned.
    """
    end = find_message_position(session, message_id).position if message_id else MAX_POSITION
    key = key or f"agent:{session.agent}:{uuid.uuid4().hex[:12]}"
    copied = {name: getattr(session, name) for name in COPIED_FIELDS}
    fork = Session(owner=user, key=key, forked_from=session, origin=origin or {}, **copied)
    fork.channel = "webchat"
    try:
        with transaction.atomic():
            fork.save(force_insert=True)
    except IntegrityError:
        return Session.objects.get(owner=user, key=key, deleted_at__isnull=True)
    count = 0
    for page in _read_pages(session, end):
        calls = read_call_details(page)
        files = attachments.copy_attachments(user, fork, [one for row in page for one in list_attachment_ids(row.content)])
        batch = [
            (EntryPosition(fork.pk, 1, count + number, moment=row.moment), _copy_entry(row, calls, files))
            for number, row in enumerate(page, 1)
        ]
        journal.insert_entries(batch, clock.now())
        count += len(page)
    fork.entry_count = count
    fork.save(update_fields=["entry_count"])
    SessionMark.objects.create(session=fork, user=user, read_position=count)
    event_batch = journal.insert_session_event(fork.pk, NewEvent("session", {"change": "forked", "forkedFrom": str(session.pk)}))
    events.announce(session_id=fork.pk, session_key=fork.key, owner_id=user.pk, batch=event_batch)
    events.notify_session_changed(fork, "created")
    fork.refresh_from_db()
    return fork


def _read_pages(session: Session, end: int) -> Iterator[Sequence[TranscriptRow]]:
    """Yield entries up to the message, including the results of tool calls it made: a call without its result says little."""
    last, call_ids = 0, set[str]()
    while rows := read_rows_after(session, after=last, limit=PAGE_SIZE):
        page_rows = []
        for row in rows:
            if row.position > end and not (row.kind == "tool_result" and row.meta.get("toolCallId") in call_ids):
                break
            if row.kind == "message":
                call_ids = {block["id"] for block in row.content if block.get("type") == "toolCall"}
            page_rows.append(row)
        if page_rows:
            yield page_rows
        if len(page_rows) < len(rows) or len(rows) < PAGE_SIZE:
            return
        last = rows[-1].position


def _copy_entry(row: TranscriptRow, calls: CallDetails, files: dict[str, str]) -> NewEntry:
    facts: dict[str, Any] = (
        to_wire_message(replace(row, run_id=None), calls) if row.kind in ("message", "tool_result") else row.meta
    )
    meta = {name: value for name, value in facts.items() if name not in NON_META_FIELDS and name != "position"}
    content = [
        {**block, "attachmentId": files[block["attachmentId"]]} if block.get("attachmentId") in files else block
        for block in row.content
    ]
    if "imageIds" in meta:
        meta["imageIds"] = list_attachment_ids(content)
    return NewEntry(row.kind, row.role, content, row.text, row.message_id, meta)
