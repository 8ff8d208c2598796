"""Recover runs whose worker is gone or has lost its lease."""

import logging

from agents.runners.pool import RunnerPool
from clawsite.infra import db
from clawsite.infra.process.identity import is_alive, own_identity
from sessions_app.runs import queue, workers
from tools_app.exec.processes.keeper import current_manager

log = logging.getLogger(__name__)


async def recover_runs(worker: str, pool: RunnerPool) -> None:
    for dead in await db.read(workers.find_dead_on_this_host, own_identity(), is_alive):
        count = await db.write(queue.expire_leases, dead, alone=True)
        log.warning("worker %s is gone; recovering %d of its runs", dead, count)
    if pool.room > 0:
        recovered = await db.write(queue.recover_runs, worker, pool.room, alone=True)
        await current_manager().end_commands_of_runs([claimed.pk for claimed in recovered])
        pool.start(recovered)
