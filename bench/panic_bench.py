"""Measure how long a freeze takes, and what checking for freezes costs.

    python -m bench.panic_bench [--database postgres] [--rounds 20] [--out FILE]

In each round, everything is frozen while a run executes a command in a separate process: through the socket (`panic.stop`, as the
page does, which notifies workers) and only in the database (as `claw panic` does; workers poll).

command gone    from the request until the command's process has ended
confirmed       from the request until the worker has stored that the run is waiting
claim           one claim among 50 queued sessions with the check for freezes, and the same without it, interleaved

The exit code is 1 if a freeze took longer than 2 s.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from bench.django_installation import open_installation, running, until
from bench.gateway.figures import Result, milliseconds
from bench.installation import Installation
from bench.rounds_command import run_benchmark

FREEZE_METHODS = ("panic.stop", "claw panic")
PROMISES = {f"{method}: {what}": ("max", 2000.0) for method in FREEZE_METHODS for what in ("command gone", "confirmed")}
QUEUED = 50
CLAIMS = 500


def measure_claims() -> Result:
    """Measure claims before any worker is started. Each claim is rolled back."""
    from django.db import transaction

    from clawsite.accounts.models import User
    from sessions_app.models import Run
    from sessions_app.runs import claim_sql, lifecycle
    from sessions_app.sessions.service import ensure_session

    user = User.objects.create(username="bench-queue")
    for number in range(QUEUED):
        session = ensure_session(user, f"agent:main:queued-{number}")
        lifecycle.accept_run(user=user, session=session, run_id=f"queued-{number}", prompt="hi")
    conditions = {"claim": claim_sql.FREEZE_HOLDS_RUN, "claim without the check": "1 = 0"}
    seconds: dict[str, list[float]] = {name: [] for name in conditions}
    for number in range(CLAIMS + 20):
        for name, condition in conditions.items():
            claim_sql.FREEZE_HOLDS_RUN = condition
            with transaction.atomic():
                started_at = time.perf_counter()
                claimed = claim_sql.claim_runs(worker="bench", lane="main", max_runs=1, lease_seconds=20)
                elapsed = time.perf_counter() - started_at
                transaction.set_rollback(True)
            assert len(claimed) == 1
            if number >= 20:
                seconds[name].append(elapsed)
    claim_sql.FREEZE_HOLDS_RUN = conditions["claim"]
    Run.objects.all().delete()
    return {name: milliseconds(times) for name, times in seconds.items()}


async def measure_freezes(installation: Installation, sleeps: Any, rounds: int) -> Result:
    from django.contrib.auth.models import Group

    from clawsite.accounts.groups import scopes_of
    from clawsite.accounts.models import User
    from clawsite.accounts.tokens import issue_token
    from clawsite.client import Client, Endpoint
    from sessions_app.models import Run, RunWait
    from sessions_app.runs import freezes, lifecycle
    from sessions_app.sessions.service import ensure_session

    user = User.objects.create(username="bench-operator")
    user.groups.set(Group.objects.filter(name__in=["Operator", "User"]))
    token = issue_token(user, "bench", sorted(scopes_of(user)), None)[1]
    session = ensure_session(user, "agent:main:bench")

    async def freeze_in_database() -> None:
        freezes.freeze("all", reason="bench", by=None, by_name="bench")

    async def run_round(number: int, freeze: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
        started = len(sleeps.started)
        pk = lifecycle.accept_run(user=user, session=session, run_id=f"k{number}", prompt=f"{sleeps.prompt} [[text=done]]").pk
        await until(lambda: len(sleeps.started) > started)
        await asyncio.sleep(0.01 + number * 0.137 % 1)  # at a varying moment between two polls
        started_at = time.perf_counter()
        await freeze()
        gone = await until(lambda: not sleeps.alive)
        confirmed = await until(lambda: RunWait.objects.main_kinds([pk]) == {pk: "frozen"})
        freezes.resume("all", reason="bench", by=None, by_name="bench")
        await until(lambda: Run.objects.filter(pk=pk, status="completed").exists())
        return gone - started_at, confirmed - started_at

    async with Client(Endpoint(url=installation.urls[0], token=token)) as client:

        async def freeze_over_socket() -> None:
            await client.request("panic.stop", {"scope": "all", "reason": "bench"})

        methods = {"panic.stop": freeze_over_socket, "claw panic": freeze_in_database}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
        for number in range(rounds):
            for index, (name, freeze) in enumerate(methods.items()):
                times[name].append(await run_round(number * len(methods) + index, freeze))
    result = {}
    for name, pairs in times.items():
        result[f"{name}: command gone"] = milliseconds(gone for gone, _ in pairs)
        result[f"{name}: confirmed"] = milliseconds(confirmed for _, confirmed in pairs)
    return result


def measure(database: str, rounds: int) -> Result:
    with open_installation(database) as installation:
        from tests.harness.plugins import sleep_plugin

        result = measure_claims()
        with sleep_plugin(installation.home) as sleeps, running(installation):
            result |= asyncio.run(measure_freezes(installation, sleeps, rounds))
    return result


if __name__ == "__main__":
    sys.exit(run_benchmark("bench.panic_bench", __doc__, measure, PROMISES))
