"""Server-wide maintenance done by workers: seal the audit log, record the event log position, delete old data."""

import asyncio
import datetime as dt
from pathlib import Path

from django.conf import settings

from agents import session_cleanup
from agents.context.workspace import delete_sandbox
from clawsite.infra import clock, db
from clawsite.infra.audit import anchor as audit_anchor
from clawsite.infra.audit import chain as audit_chain
from sessions_app.events import epoch, retention

INTERVAL_SECONDS = 60.0
BATCH_PAUSE_SECONDS = 0.05  # between two batches, so that other writers go first; still 3,000 events per second


async def seal_audit_log() -> None:
    """Seal new audit log entries. All workers run this every second; one does the work, the others find nothing left."""
    while await db.read(audit_chain.has_unsealed):
        if await db.write(audit_chain.seal_entries, alone=True) < audit_chain.BATCH_SIZE:
            return
        await asyncio.sleep(BATCH_PAUSE_SECONDS)


async def anchor_audit_log() -> None:
    if settings.AUDIT_ANCHOR:
        await db.read(audit_anchor.append_anchor, Path(settings.AUDIT_ANCHOR), only_if_due=True)


async def record_log_position() -> None:
    """Record the position, also at a clean shutdown, so that a database restored later is recognized as older."""
    seen = await asyncio.to_thread(epoch.read_note, settings.HOME)
    mark = await db.write(epoch.advance_mark, seen, alone=True)
    await asyncio.to_thread(epoch.write_note, settings.HOME, mark)


async def delete_old_events() -> None:
    if settings.EVENT_DAYS <= 0:
        return
    before = clock.now() - dt.timedelta(days=settings.EVENT_DAYS)
    sessions, position = await db.read(retention.list_sessions_with_old_events, before)
    while sessions:
        for session_id in sessions:
            while cursor := await db.read(retention.find_deletable_cursor, session_id, before):
                await db.write(retention.delete_events, session_id, cursor, alone=True)
                await asyncio.sleep(BATCH_PAUSE_SECONDS)
        sessions, position = await db.read(retention.list_sessions_with_old_events, before, position)


async def delete_stateless_sessions() -> None:
    if settings.STATELESS_DAYS <= 0:
        return
    before = clock.now() - dt.timedelta(days=settings.STATELESS_DAYS)
    for session_id in await db.read(session_cleanup.list_expired, before):
        if await db.write(session_cleanup.hide_session, session_id, before, alone=True):
            more = True
            while more:
                more = await db.write(session_cleanup.delete_batch, session_id, alone=True)
                await asyncio.sleep(BATCH_PAUSE_SECONDS)
            await asyncio.to_thread(delete_sandbox, session_id)
