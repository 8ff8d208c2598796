"""Measure the time from an approval to the start of the command, and how fast a long queue is listed.

    python -m bench.approvals_bench [--database postgres] [--rounds 20] [--out FILE]

click → started   from sending `exec.approval.resolve` until the row of the started command is committed
ask               from the message until its approval request exists: model, exec gate, request
list, page        1,000 pending requests: `exec.approval.list` of the oldest 100, and the page /approvals/

The exit code is 1 if a target is missed.
"""

import asyncio
import datetime as dt
import json
import sys
import time
import uuid
from typing import Any

from bench.django_installation import open_installation, running, until
from bench.gateway.figures import Result, milliseconds
from bench.installation import Installation
from bench.rounds_command import run_benchmark

PROMISES = {"click → started": ("p50", 100.0), "list of 1,000": ("p95", 200.0), "page of 1,000": ("p95", 200.0)}
PENDING = 1000
LIST_REQUESTS = 40


async def measure_approvals(installation: Installation, user: Any, token: str, rounds: int) -> Result:
    from clawsite.client import Client, Endpoint
    from sessions_app.models import Run
    from sessions_app.runs import lifecycle
    from sessions_app.sessions.service import ensure_session
    from tools_app.models import Approval, Command

    session = ensure_session(user, "agent:main:bench")
    request_times, start_times = [], []
    async with Client(Endpoint(url=installation.urls[0], token=token)) as client:
        for number in range(rounds):
            command = json.dumps({"command": f"touch made-{number}"})
            sent = time.perf_counter()
            pk = lifecycle.accept_run(
                user=user, session=session, run_id=f"k{number}", prompt=f"[[tool=exec args={command}]] [[text=done]]"
            ).pk
            created = await until(lambda pk=pk: Approval.objects.filter(run=pk).exists())
            request_times.append(created - sent)
            await until(lambda pk=pk: Run.objects.filter(pk=pk, status="waiting").exists())
            approval = Approval.objects.get(run=pk)
            sent = time.perf_counter()
            await client.request(
                "exec.approval.resolve", {"id": str(approval.pk), "decision": "allow-once", "planHash": approval.plan_hash}
            )
            start_times.append(await until(lambda pk=pk: Command.objects.filter(run=pk).exists()) - sent)
            await until(lambda pk=pk: Run.objects.filter(pk=pk, status="completed").exists())
    return {"click → started": milliseconds(start_times), "ask": milliseconds(request_times)}


async def measure_lists(installation: Installation, user: Any, token: str) -> Result:
    import httpx
    from django.test import Client as Browser

    from clawsite.client import Client, Endpoint
    from tools_app.models import Approval

    first = Approval.objects.order_by("created_at").first()
    assert first is not None
    now = dt.datetime.now(dt.UTC)
    for number in range(PENDING):
        first.pk, first.call_id, first.status = uuid.uuid4(), f"copy-{number}", "pending"
        first.decided_at = first.decided_by = first.used_at = None
        first.created_at, first.expires_at = now - dt.timedelta(seconds=number), now + dt.timedelta(hours=8)
        first.save(force_insert=True)
    signed_in = Browser()
    signed_in.force_login(user)
    cookies = {name: cookie.value for name, cookie in signed_in.cookies.items()}
    lists, pages = [], []
    address = installation.urls[0].replace("ws", "http", 1).removesuffix("/ws")
    async with (
        Client(Endpoint(url=installation.urls[0], token=token)) as client,
        httpx.AsyncClient(base_url=address, cookies=cookies) as browser,
    ):
        for _ in range(LIST_REQUESTS):
            sent = time.perf_counter()
            approvals = await client.request("exec.approval.list", {"limit": 100})
            lists.append(time.perf_counter() - sent)
            assert len(approvals) == 100
            sent = time.perf_counter()
            page = await browser.get("/approvals/")
            pages.append(time.perf_counter() - sent)
            assert page.status_code == 200, page.status_code
    return {"list of 1,000": milliseconds(lists), "page of 1,000": milliseconds(pages)}


def measure(database: str, rounds: int) -> Result:
    with open_installation(database) as installation:
        from django.contrib.auth.models import Group

        from clawsite.accounts.groups import scopes_of
        from clawsite.accounts.models import User
        from clawsite.accounts.tokens import issue_token
        from tools_app.models import ExecRule

        user = User.objects.create(username="bench-approver")
        user.groups.set(Group.objects.filter(name__in=["Approver", "User"]))
        token = issue_token(user, "bench", sorted(scopes_of(user)), None)[1]
        ExecRule.objects.create(scope="agent", subject="main", security="allowlist", ask="on-miss")
        with running(installation):
            result = asyncio.run(measure_approvals(installation, user, token, rounds))
            result |= asyncio.run(measure_lists(installation, user, token))
    return result


if __name__ == "__main__":
    sys.exit(run_benchmark("bench.approvals_bench", __doc__, measure, PROMISES))
