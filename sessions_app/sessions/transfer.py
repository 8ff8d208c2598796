"""Export and import transcripts. The line format is in jsonl.py.

Import only copies entries: no run starts, no tool call is executed, and the entries belong to no run.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import IO

import orjson
from django.db import transaction
from django.utils.translation import gettext as _

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

PAGE_SIZE = 100  # entries read or written at a time: 5 MB with tool results of 50 KB
MAX_BYTES_IN_MEMORY = 8 << 20  # of a file being imported; the rest is spooled to disk


@dataclass(frozen=True, slots=True)
class ImportResult:
    session: Session
    entries: int


def export_lines(session: Session, *, all_generations: bool = False) -> Iterator[bytes]:
    """Yield the transcript line by line as of now; messages added while it is read are left out."""
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
        for _position, kind, message_id, moment, role, content, text, meta, generation, run_id in rows:
            blocks, facts = orjson.loads(content), orjson.loads(meta)
            yield JsonlEntry(kind, message_id, sql.as_datetime(moment), role, blocks, text, facts, generation, run_id)
        if len(rows) < PAGE_SIZE:
            return
        last = rows[-1][0]


def import_transcript(user: User, key: str, file: IO[bytes]) -> ImportResult:
    """Create a session from a file, completely or not at all. A session with that key may exist but must be unused."""
    with SpooledTemporaryFile(MAX_BYTES_IN_MEMORY) as spool:
        # Every line is checked before the database is touched; the copy allows reading a pipe a second time.
        header, entries = read_transcript(_copy_lines(read_lines(file), spool))
        count, generations = 0, {header.generation}
        for entry in entries:
            count += 1
            generations.add(entry.generation)
        spool.seek(0)
        return _write_entries(user, key, spool, count, sorted(generations))


def _copy_lines(lines: Iterable[bytes], spool: IO[bytes]) -> Iterator[bytes]:
    for line in lines:
        spool.write(line)
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
    batch = journal.insert_session_event(session.pk, NewEvent("session", {"change": "imported"}))
    events.announce(session_id=session.pk, session_key=session.key, owner_id=user.pk, batch=batch)
    return ImportResult(session, count)


def _find_unused_session(user: User, key: str) -> Session:
    """Find and lock the session. Entries of earlier generations count as used: positions are never reused."""
    made = ensure_session(user, key)
    session = Session.objects.select_for_update().filter(pk=made.pk, deleted_at__isnull=True, entry_count=0).first()
    # Checked while holding the lock, so concurrently accepted prompts are seen.
    if session is None or Run.objects.filter(session=session).exists():
        raise Conflict(_("Session %(session)s is already in use. Import into a new key.") % {"session": made.key})
    return session


def _to_new_entry(entry: JsonlEntry) -> NewEntry:
    return NewEntry(entry.kind, entry.role, entry.content, entry.text, entry.id, entry.meta, entry.keep_through)
