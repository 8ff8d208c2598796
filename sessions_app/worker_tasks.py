"""Periodic tasks of workers for the event log, attachments, lanes, parked runs and the list of workers."""

import asyncio
import datetime as dt

from django.conf import settings

from clawsite.infra import clock, db
from clawsite.infra.periodic import BATCH_PAUSE_SECONDS, periodic
from clawsite.infra.process.host import Host, on_start
from sessions_app.events import epoch, retention
from sessions_app.runs import freezes, waiting, workers
from sessions_app.runs.lanes import LaneDelayMonitor
from sessions_app.runs.waiting import WaitsDue
from sessions_app.sessions import attachments


@on_start("worker")
async def watch_lanes(host: Host) -> None:
    monitor = LaneDelayMonitor()

    async def check() -> None:
        await db.read(monitor.check)

    host.every("warn about delayed lanes", settings.SWEEP_SECONDS, check)


@periodic("remove silent workers", on="worker", every=lambda: settings.SWEEP_SECONDS)
async def remove_silent_workers() -> None:
    await db.write(workers.remove_silent)


@periodic("close freezes of ended runs", on="worker", every=lambda: settings.SWEEP_SECONDS)
async def close_freezes() -> None:
    await db.write(freezes.close_freezes_of_ended_runs)


@periodic("record freezes of parked runs", on="worker", every=lambda: settings.SWEEP_SECONDS)
async def record_freezes() -> None:
    if await db.read(waiting.has_freezes):
        await db.write(waiting.refresh_freezes)


@periodic("settle waits", on="worker", every=lambda: settings.POLL_SECONDS, hint=WaitsDue)
async def settle_waits() -> None:
    """Wake parked runs whose deadline has passed, or whose settlement only polling finds."""
    if due := await db.read(waiting.list_due):
        await db.write(waiting.settle_due, due, alone=True)


@periodic("record event log position", on="worker", every=60.0, at_end=True)
async def record_log_position() -> None:
    """Record the position, also at a clean shutdown, so that a database restored later is recognized as older."""
    seen = await asyncio.to_thread(epoch.read_note, settings.HOME)
    mark = await db.write(epoch.advance_mark, seen, alone=True)
    await asyncio.to_thread(epoch.write_note, settings.HOME, mark)


@periodic("delete old events", on="worker", every=60.0, hang_after=3600.0)
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


@periodic("delete unsent attachments", on="worker", every=3600.0, hang_after=600.0)
async def delete_unsent_attachments() -> None:
    await db.write(attachments.delete_unsent)
    await db.read(attachments.sweep_files)
