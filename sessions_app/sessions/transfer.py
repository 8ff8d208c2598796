"""Transcripts out of the database and into it. The lines themselves are transcript_jsonl's.

Import copies words, it does nothing: no run starts, no tool call in it is carried out, and its entries belong to no run.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import IO

import orjson
from django.db import transaction

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from clawsite.infra.errors import Conflict
from sessions_app import tables
from sessions_app.events import announce as events
from sessions_app.events import journal
from sessions_app.events.journal import EntryPosition, NewEntry, NewEvent
from sessions_app.models import Run, Session
from sessions_app.sessions.jsonl import JsonlEntry, TranscriptHeader, format_entry, format_header, read_lines, read_transcript
from sessions_app.sessions.service import ensure_session

PAGE_SIZE = 100  # entries read or written at once: tool results of 50 KB make it 5 MB
MAX_BYTES_IN_MEMORY = 8 << 20  # of a file being imported; the rest waits on the disk


@dataclass(frozen=True, slots=True)
class ImportResult:
    session: Session
    entries: int


def export_lines(session: Session, *, all_generations: bool = False) -> Iterator[bytes]:
    """The transcript line by line, as it is now: what is said while it is being read is left out."""
    yield format_header(
        TranscriptHeader(
            key=session.key,
            agent=session.agent,
            session_id=str(session.generation_id),
            created_at=session.created_at,
            title=session.title,
            generation=session.generation,
        )
    )
    parent = None
    for entry in _read_entries(session, oldest_generation=1 if all_generations else session.generation):
        yield format_entry(entry, parent)
        parent = entry.id


def _read_entries(session: Session, *, oldest_generation: int) -> Iterator[JsonlEntry]:
    last = 0
    while True:
        rows = sql.fetch_rows(
            f"""
            SELECT e.position, e.kind, e.message_id, e.created_at, e.role, e.content, e.text, e.meta, e.generation, r.run_id
            FROM {tables.ENTRY} e LEFT JOIN {tables.RUN} r ON r.id = e.run_id
            WHERE e.session_id = %s AND e.position > %s AND e.position <= %s AND e.generation BETWEEN %s AND %s
            ORDER BY e.position LIMIT %s
            """,
            [sql.uuid_value(session.pk), last, session.entry_count, oldest_generation, session.generation, PAGE_SIZE],
        )
        for _, kind, message_id, moment, role, content, text, meta, generation, run_id in rows:
            words, facts = orjson.loads(content), orjson.loads(meta)
            yield JsonlEntry(kind, message_id, sql.as_datetime(moment), role, words, text, facts, generation, run_id)
        if len(rows) < PAGE_SIZE:
            return
        last = rows[-1][0]


def import_transcript(user: User, key: str, file: IO[bytes]) -> ImportResult:
    """Make a session of somebody from a file, all of it or nothing. A session of that key may be there, but must be unused."""
    with SpooledTemporaryFile(MAX_BYTES_IN_MEMORY) as kept:
        # Every line is checked before the database is touched; the copy lets a pipe be read a second time.
        header, entries = read_transcript(_copy_lines(read_lines(file), kept))
        count, generations = 0, {header.generation}
        for entry in entries:
            count += 1
            generations.add(entry.generation)
        kept.seek(0)
        return _write_entries(user, key, kept, count, sorted(generations))


def _copy_lines(lines: Iterable[bytes], kept: IO[bytes]) -> Iterator[bytes]:
    for line in lines:
        kept.write(line)
        yield line


@transaction.atomic
def _write_entries(user: User, key: str, file: IO[bytes], count: int, generations: list[int]) -> ImportResult:
    header, entries = read_transcript(read_lines(file))
    session = _find_unused_session(user, key)
    session.entry_count = count
    session.generation = len(generations)
    session.title = header.title or session.title
    session.save(update_fields=["entry_count", "generation", "title"])
    numbered = {generation: number for number, generation in enumerate(generations, 1)}
    rows = (
        (EntryPosition(session.pk, numbered[entry.generation], position, moment=entry.moment), _to_new_entry(entry))
        for position, entry in enumerate(entries, 1)
    )
    while page := list(islice(rows, PAGE_SIZE)):
        journal.insert_entries(page, clock.now())
    told = journal.insert_session_event(session.pk, NewEvent("session", {"change": "imported"}))
    events.announce(session_id=session.pk, session_key=session.key, owner_id=user.pk, told=told)
    return ImportResult(session, count)


def _find_unused_session(user: User, key: str) -> Session:
    """Locked. Entries of an earlier generation count too: positions are never given twice."""
    made = ensure_session(user, key)
    session = Session.objects.select_for_update().filter(pk=made.pk, deleted_at__isnull=True, entry_count=0).first()
    # Asked after the lock is held: a prompt that was accepted meanwhile is seen.
    if session is None or Run.objects.filter(session=session).exists():
        raise Conflict(f"session {made.key!r} has been used: import into a key that is not there yet")
    return session


def _to_new_entry(entry: JsonlEntry) -> NewEntry:
    return NewEntry(entry.kind, entry.role, entry.content, entry.text, entry.id, entry.meta, entry.keep_through)
