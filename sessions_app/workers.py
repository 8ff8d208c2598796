"""The register of worker processes: who is there, who is provably gone."""

from collections.abc import Callable

from clawsite.infra import clock
from clawsite.infra.identity import Identity
from sessions_app import hot_sql, sql
from sessions_app.models import Run, Worker


def register(worker: str, *, version: str, identity: Identity) -> None:
    Worker.objects.create(
        id=worker,
        host=identity.host,
        boot_id=identity.boot_id,
        pid=identity.pid,
        process_started=identity.started,
        started_at=clock.now(),
        heartbeat_at=hot_sql.db_now(),
        version=version,
    )


def beat(worker: str) -> None:
    sql.execute(f"UPDATE sessions_app_worker SET heartbeat_at = {sql.now()} WHERE id = %s", [worker])


def unregister(worker: str) -> None:
    Worker.objects.filter(pk=worker).delete()


def dead_on_this_host(me: Identity, is_alive: Callable[[Identity], bool]) -> list[str]:
    """Workers of this very boot whose process is not there any more: their leases need not run out first."""
    here = Worker.objects.filter(host=me.host, boot_id=me.boot_id).exclude(boot_id="")
    return [
        row.id
        for row in here
        if not is_alive(Identity(host=row.host, boot_id=row.boot_id, pid=row.pid, started=row.process_started))
    ]


def forget_silent(seconds: float) -> int:
    """Drop workers of other hosts that hold nothing and have been silent for long."""
    silent = Worker.objects.filter(heartbeat_at__lt=hot_sql.db_now() - seconds)
    holding = Run.objects.filter(status=Run.Status.RUNNING).values("worker")
    return silent.exclude(pk__in=holding).delete()[0]
