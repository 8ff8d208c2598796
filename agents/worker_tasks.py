"""What a worker runs for agents: its own runs, and the deletion of sessions created for a single API request."""

import asyncio
import datetime as dt

from django.conf import settings

from agents import session_cleanup
from agents.context.workspace import delete_sandbox
from agents.llm import catalog
from agents.runners.leases import LeaseKeeper
from agents.runners.pool import RunnerPool
from agents.runners.recovery import recover_runs
from agents.runners.stops import park_frozen_runs, stop_aborted_runs
from agents.warm_up import warm_up
from clawsite.infra import clock, db
from clawsite.infra.periodic import BATCH_PAUSE_SECONDS, periodic
from clawsite.infra.process.host import Host, on_start
from sessions_app.events.announce import FreezesChanged, RunChanged


@on_start("worker")
async def start_runs(host: Host) -> None:
    """Register the worker, keep the leases of its runs, stop and recover runs."""
    pool, leases = host.get(RunnerPool), host.get(LeaseKeeper)
    aborts, freezes, lost_runs = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def handle_run(message: RunChanged) -> None:
        match message.status:
            case "abort":
                if pool.get(message.run):
                    aborts.set()
            case "handed over":
                lost_runs.set()
            case _:
                pool.claim_hint.set()

    def handle_freeze(_message: FreezesChanged) -> None:
        freezes.set()
        pool.claim_hint.set()

    host.subscribe(RunChanged, handle_run)
    host.subscribe(FreezesChanged, handle_freeze)
    host.every("renew leases", settings.HEARTBEAT_SECONDS, leases.renew)
    host.every("recover runs", settings.SWEEP_SECONDS, lambda: recover_runs(host.id, pool), hint=lost_runs)
    host.every("stop aborted runs", settings.POLL_SECONDS, lambda: stop_aborted_runs(host.id, pool), hint=aborts)
    host.every("park frozen runs", settings.POLL_SECONDS, lambda: park_frozen_runs(pool), hint=freezes)
    await leases.register()


@on_start("worker")
async def prepare_for_first_run(host: Host) -> None:
    host.on_stop(catalog.close_providers)
    host.spawn(warm_up())


@periodic("delete stateless sessions", on="worker", every=60.0, hang_after=3600.0)
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
