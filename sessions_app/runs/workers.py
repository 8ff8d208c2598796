"""The worker registry: which processes are alive, and which are known to be dead."""

from collections.abc import Callable

from django.conf import settings
from django.db.models import QuerySet

from clawsite.infra import clock, sql
from clawsite.infra.process.identity import ProcessIdentity
from sessions_app.models import Run, Worker

MISSED_HEARTBEATS = 3
REMOVE_AFTER_SECONDS = 3600


def register(worker: str, *, version: str, identity: ProcessIdentity) -> None:
    Worker.objects.create(
        id=worker,
        host=identity.host,
        boot_id=identity.boot_id,
        pid=identity.pid,
        process_started=identity.started,
        started_at=clock.now(),
        heartbeat_at=sql.db_now(),
        version=version,
    )


def record_heartbeat(worker: str) -> None:
    sql.execute(f"UPDATE sessions_app_worker SET heartbeat_at = {sql.now_expression()} WHERE id = %s", [worker])


def mark_draining(worker: str) -> None:
    """Mark a worker as draining: it takes no new runs."""
    Worker.objects.filter(pk=worker).update(draining=True)


def unregister(worker: str) -> None:
    Worker.objects.filter(pk=worker).delete()


def find_dead_on_this_host(me: ProcessIdentity, is_alive: Callable[[ProcessIdentity], bool]) -> list[str]:
    """Find workers of the current boot whose process is gone: their leases can be expired early."""
    here = Worker.objects.filter(host=me.host, boot_id=me.boot_id).exclude(boot_id="")
    return [
        row.id
        for row in here
        if not is_alive(ProcessIdentity(host=row.host, boot_id=row.boot_id, pid=row.pid, started=row.process_started))
    ]


def list_live() -> QuerySet[Worker]:
    """Workers with a recent heartbeat that accept new runs; compared in database time, which workers write."""
    oldest = sql.db_now() - MISSED_HEARTBEATS * settings.HEARTBEAT_SECONDS
    return Worker.objects.filter(heartbeat_at__gte=oldest, draining=False)


def list_recent() -> QuerySet[Worker]:
    """Workers that may still hold runs, including draining ones. Any other worker has lost its leases or is gone."""
    return Worker.objects.filter(heartbeat_at__gte=sql.db_now() - settings.LEASE_SECONDS)


def remove_silent() -> int:
    """Delete workers of other hosts that hold nothing and have been silent for an hour."""
    silent = Worker.objects.filter(heartbeat_at__lt=sql.db_now() - REMOVE_AFTER_SECONDS)
    holding = Run.objects.filter(status=Run.Status.RUNNING).values("worker")
    return silent.exclude(pk__in=holding).delete()[0]
