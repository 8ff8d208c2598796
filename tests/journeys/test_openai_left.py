"""Callers that disconnect during a run, and callers whose run waits for approval. Over real sockets."""

import asyncio
import json

import httpx
import pytest

from clawsite.accounts.tokens import issue_token
from clawsite.api.openai import runs
from sessions_app.models import Run
from tests.harness.commands import exec_prompt, require_approval
from tests.harness.gateway import serve_gateway
from tests.harness.worker import WorkerHarness
from tools_app.approvals import requests as approval_requests
from tools_app.models import Approval

READ_WRITE = ["operator.read", "operator.write"]


@pytest.fixture
async def server(harness: WorkerHarness):
    """The gateway in this process, together with the worker."""
    async with serve_gateway() as address:
        yield address


async def ask(server: str, user, words: str, *, stream: bool, **headers: str):
    """A request that has been sent but not answered yet."""
    body = json.dumps({"model": "clawsite", "messages": [{"role": "user", "content": words}], "stream": stream}).encode()
    token = issue_token(user, "test", READ_WRITE)[1]
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {token}",
        f"Content-Length: {len(body)}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    host, port = server.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    return reader, writer


@pytest.mark.parametrize("stream", [True, False])
async def test_client_disconnect_aborts_the_run(harness: WorkerHarness, server, eventually, stream):
    reader, writer = await ask(server, harness.user, "[[tokens=9 hang_after=2]]", stream=stream)
    if stream:
        async with asyncio.timeout(20):
            await reader.readuntil(b"w0 ")
    await eventually(lambda: Run.objects.filter(status="running").exists())
    writer.close()
    run = await harness.ended(Run.objects.get(owner=harness.user).pk)
    assert (run.status, run.reason) == ("aborted", "client-left")


@pytest.mark.parametrize("headers", [{}, {"Idempotency_Key": "mine"}])
async def test_run_continues_after_disconnect_if_configured_or_resumable(
    harness: WorkerHarness, server, settings, eventually, headers
):
    settings.HTTP_ABORT_ON_DISCONNECT = bool(headers)
    _reader, writer = await ask(server, harness.user, "[[tokens=9 slow_first=0.3]]", stream=False, **headers)
    await eventually(lambda: Run.objects.filter(status="running").exists())
    writer.close()
    run = await harness.ended(Run.objects.get(owner=harness.user).pk)
    assert run.status == "completed"


async def test_idle_stream_sends_keepalives(harness: WorkerHarness, server, monkeypatch):
    monkeypatch.setattr(runs, "KEEP_ALIVE_SECONDS", 0.05)
    reader, writer = await ask(server, harness.user, "[[slow_first=0.5]]", stream=True)
    async with asyncio.timeout(20):
        told = await reader.readuntil(b"[DONE]")
    writer.close()
    assert b"\n: keep-alive\n" in told
    assert b'"content":"ok"' in told


async def test_run_waiting_for_approval_survives_disconnect(harness: WorkerHarness, server, settings, make_user):
    require_approval()
    settings.HTTP_APPROVAL_WAIT_SECONDS = 0.2
    token = issue_token(harness.user, "test", READ_WRITE)[1]
    async with httpx.AsyncClient(base_url=f"http://{server}", headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        messages = [{"role": "user", "content": exec_prompt(command="./nobody-knows-it")}]
        answer = await client.post("/v1/chat/completions", json={"model": "clawsite", "messages": messages})
    question = Approval.objects.get(requester=harness.user)
    run = Run.objects.get(owner=harness.user)
    text = answer.json()["choices"][0]["message"]["content"]
    assert f"Run {run.run_id} is waiting for approval {question.pk}" in text
    assert run.session.key in text
    assert run.status == "waiting"
    approval_requests.resolve_approval(question.pk, by=make_user("Approver"), decision="deny", seen_hash=question.plan_hash)
    assert (await harness.ended(run.pk)).status == "completed"


async def test_gateway_shutdown_notifies_clients_and_keeps_runs(harness: WorkerHarness, eventually):
    async with serve_gateway() as server:
        reader, writer = await ask(server, harness.user, "[[tokens=9 hang_after=2]]", stream=True)
        async with asyncio.timeout(20):
            await reader.readuntil(b"w0 ")
    async with asyncio.timeout(20):
        rest = await reader.read()
    writer.close()
    assert b"The gateway is restarting" in rest
    assert Run.objects.get(owner=harness.user).status == "running"
