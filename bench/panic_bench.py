"""How long a stop takes, and what it costs when nothing is stopped.

    python -m bench.panic_bench [--database postgres] [--rounds 20] [--out FILE]

Each round a run is carrying out a command, a process of its own, while everything is stopped: over the socket (`panic.stop`, as
the page does it; workers hear of it) and on the database alone (as `claw panic` does it; workers find it by their poll).
command gone    from before the stop was asked for until the command's process is not there any more
confirmed       until the worker has written that the run waits
claim           one claim among 50 queued sessions with the look for stops, and the same without it, interleaved
Exit code 1: a stop took longer than 2 s.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from bench.gateway.figures import Result, milliseconds
from bench.installation import Installation
from bench.rounds_command import run_benchmark
from bench.django_installation import running, until, open_installation

STOPS = ("panic.stop", "claw panic")
PROMISES = {f"{stop}: {what}": ("max", 2000.0) for stop in STOPS for what in ("command gone", "confirmed")}
QUEUED = 50
CLAIMS = 500


def claims() -> Result:
    """Before any worker is there. Each claim is taken back."""
    from django.db import transaction

    from clawsite.accounts.models import User
    from sessions_app.models import Run
    from sessions_app.runs import claim_sql, lifecycle
    from sessions_app.sessions.service import ensure_session

    user = User.objects.create(username="bench-queue")
    for number in range(QUEUED):
        session = ensure_session(user, f"agent:main:queued-{number}")
        lifecycle.accept_run(user=user, session=session, run_id=f"queued-{number}", prompt="hi")
    looks = {"claim": claim_sql.NOT_FROZEN, "claim without the look": "1 = 1"}
    seconds: dict[str, list[float]] = {name: [] for name in looks}
    for number in range(CLAIMS + 20):
        for name, condition in looks.items():
            claim_sql.NOT_FROZEN = condition
            with transaction.atomic():
                began = time.perf_counter()
                taken = claim_sql.claim_runs(worker="bench", lane="main", max_runs=1, lease_seconds=20)
                took = time.perf_counter() - began
                transaction.set_rollback(True)
            assert len(taken) == 1
            if number >= 20:
                seconds[name].append(took)
    claim_sql.NOT_FROZEN = looks["claim"]
    Run.objects.all().delete()
    return {name: milliseconds(taken) for name, taken in seconds.items()}


async def stops(installation: Installation, naps: Any, rounds: int) -> Result:
    from django.contrib.auth.models import Group

    from clawsite.accounts.groups import scopes_of
    from clawsite.accounts.models import User
    from clawsite.accounts.tokens import issue_token
    from clawsite.client.client import Client, Endpoint
    from sessions_app.models import Run
    from sessions_app.runs import freezes, lifecycle
    from sessions_app.sessions.service import ensure_session

    user = User.objects.create(username="bench-operator")
    user.groups.set(Group.objects.filter(name__in=["Operator", "User"]))
    token = issue_token(user, "bench", sorted(scopes_of(user)), None)[1]
    session = ensure_session(user, "agent:main:bench")

    async def over_the_database() -> None:
        freezes.freeze("all", reason="bench", by=None, by_name="bench")

    async def one(number: int, stop: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
        started = len(naps.started)
        pk = lifecycle.accept_run(user=user, session=session, run_id=f"k{number}", prompt=f"{naps.wish} [[text=done]]").pk
        await until(lambda: len(naps.started) > started)
        await asyncio.sleep(0.01 + number * 0.137 % 1)  # at any moment between two polls
        began = time.perf_counter()
        await stop()
        gone = await until(lambda: not naps.alive)
        confirmed = await until(lambda: Run.objects.filter(pk=pk, status="waiting", reason="frozen").exists())
        freezes.resume("all", reason="bench", by=None, by_name="bench")
        await until(lambda: Run.objects.filter(pk=pk, status="completed").exists())
        return gone - began, confirmed - began

    async with Client(Endpoint(url=installation.urls[0], token=token)) as client:

        async def over_the_socket() -> None:
            await client.request("panic.stop", {"scope": "all", "reason": "bench"})

        ways = {"panic.stop": over_the_socket, "claw panic": over_the_database}
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for number in range(rounds):
            for place, (name, stop) in enumerate(ways.items()):
                taken[name].append(await one(number * len(ways) + place, stop))
    found = {}
    for name, pairs in taken.items():
        found[f"{name}: command gone"] = milliseconds(gone for gone, _ in pairs)
        found[f"{name}: confirmed"] = milliseconds(confirmed for _, confirmed in pairs)
    return found


def measure(database: str, rounds: int) -> Result:
    with open_installation(database) as installation:
        from tests.napping import napping

        found = claims()
        with napping(installation.home) as naps, running(installation):
            found |= asyncio.run(stops(installation, naps, rounds))
    return found


if __name__ == "__main__":
    sys.exit(run_benchmark("bench.panic_bench", __doc__, measure, PROMISES))
