"""What a worker does for the whole installation: seal the audit log, note how far the event log is, forget what is old."""

import asyncio
import datetime as dt
from pathlib import Path

from django.conf import settings

from agents import session_cleanup
from agents.context.workspace import forget_sandbox
from clawsite.infra import clock, db
from clawsite.infra.audit import anchor as audit_anchor
from clawsite.infra.audit import chain as audit_chain
from sessions_app.events import epoch, retention

SECONDS = 60.0
BREATH = 0.05  # between two steps, so that others come first; still 3,000 events a second


async def seal_the_audit_log() -> None:
    """Every second, and any number of workers: one of them does it, and the others find nothing left."""
    while await db.read(audit_chain.has_unsealed):
        if await db.write(audit_chain.seal, alone=True) < audit_chain.BATCH:
            return
        await asyncio.sleep(BREATH)


async def anchor_the_audit_log() -> None:
    if settings.AUDIT_ANCHOR:
        await db.read(audit_anchor.append, Path(settings.AUDIT_ANCHOR), only_if_due=True)


async def note_the_log() -> None:
    """Also at a clean end: what is restored later is then known to be older."""
    seen = await asyncio.to_thread(epoch.read_note, settings.HOME)
    mark = await db.write(epoch.raise_mark, seen, alone=True)
    await asyncio.to_thread(epoch.write_note, settings.HOME, mark)


async def forget_old_events() -> None:
    if settings.EVENT_DAYS <= 0:
        return
    before = clock.now() - dt.timedelta(days=settings.EVENT_DAYS)
    sessions, place = await db.read(retention.sessions_with_old_events, before)
    while sessions:
        for session_id in sessions:
            while cursor := await db.read(retention.old_front, session_id, before):
                await db.write(retention.forget, session_id, cursor, alone=True)
                await asyncio.sleep(BREATH)
        sessions, place = await db.read(retention.sessions_with_old_events, before, place)


async def forget_stateless_sessions() -> None:
    if settings.STATELESS_DAYS <= 0:
        return
    before = clock.now() - dt.timedelta(days=settings.STATELESS_DAYS)
    for session_id in await db.read(session_cleanup.due, before):
        if await db.write(session_cleanup.hide, session_id, before, alone=True):
            more = True
            while more:
                more = await db.write(session_cleanup.shrink, session_id, alone=True)
                await asyncio.sleep(BREATH)
            await asyncio.to_thread(forget_sandbox, session_id)
