"""OpenClaw's published client against our gateway: it connects, sends, streams, stops and reconnects."""

import asyncio
import contextlib
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from clawsite.gateway.server import runtime
from tests.protocol.openclaw.packages import modules, node

PATIENCE = 60.0  # node takes a second to start, more on a busy machine


class OpenClaw:
    """A node process with the client."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self.seen: list[dict[str, Any]] = []
        self._new = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stdout
        async for line in self._process.stdout:
            self.seen.append(json.loads(line))
            self._new.set()
        self._new.set()

    async def say(self, **line: Any) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        await self._process.stdin.drain()

    async def find(self, wanted: Any, start: int = 0) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            while True:
                for line in self.seen[start:]:
                    if wanted(line):
                        return line
                assert not self._reader.done(), f"node has ended; it said {self.seen}"
                self._new.clear()
                await self._new.wait()

    async def request(self, method: str, params: dict[str, Any], **options: Any) -> dict[str, Any]:
        id = f"n{next(self._numbers)}"
        await self.say(request={"id": id, "method": method, "params": params, "options": options})
        return await self.find(lambda line: line.get("id") == id)

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        answer = await self.request(method, params)
        assert "payload" in answer, answer
        return answer["payload"]

    async def event(self, name: str, **payload: Any) -> dict[str, Any]:
        def fits(line: dict[str, Any]) -> bool:
            return line.get("event") == name and all(line["payload"].get(key) == value for key, value in payload.items())

        return (await self.find(fits))["payload"]

    async def end(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            await self._process.wait()
            await self._reader


@pytest.fixture
async def openclaw(address):
    modules()
    script = Path(__file__).parent / "client.mjs"
    process = await asyncio.create_subprocess_exec(
        node(), script, modules(), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    client = OpenClaw(process)
    yield client
    with contextlib.suppress(ConnectionError):
        await client.end()


async def connected(openclaw: OpenClaw, address: str, token: str, **options: Any) -> dict[str, Any]:
    await openclaw.say(connect={"url": f"ws://{address}", "token": token, "scopes": ["operator.admin"], **options})
    return (await openclaw.find(lambda line: "hello" in line or "refused" in line))["hello"]


async def test_openclaw_client_connects_sends_and_streams(openclaw, address, worker, make_user, make_token):
    hello = await connected(openclaw, address, make_token(make_user(name="ada")), caps=["tool-events"])
    assert (hello["type"], hello["protocol"], hello["auth"]["role"]) == ("hello-ok", 4, "operator")
    assert await openclaw.call("sessions.subscribe", {}) == {"subscribed": True}
    sent = await openclaw.call("chat.send", {"sessionKey": "main", "message": "hi", "deliver": False, "idempotencyKey": "k1"})
    assert (sent["runId"], sent["status"]) == ("k1", "started")
    await worker.start("k1")
    await worker.stream("k1", "Hello")
    await openclaw.event("chat", state="delta", runId="k1", deltaText="Hello")
    await worker.stream("k1", ", Ada")
    await worker.finish("k1")
    final = await openclaw.event("chat", state="final", runId="k1")
    assert final["message"]["content"] == [{"type": "text", "text": "Hello, Ada"}]
    told = "".join(line["payload"]["deltaText"] for line in openclaw.seen if (line.get("payload") or {}).get("state") == "delta")
    assert told == "Hello, Ada"
    assert not [line for line in openclaw.seen if "gap" in line]
    history = await openclaw.call("chat.history", {"sessionKey": "agent:main:main", "limit": 200})
    assert [message["role"] for message in history["messages"]] == ["user", "assistant"]


async def test_openclaw_client_waits_for_the_final_agent_response(openclaw, address, worker):
    await connected(openclaw, address, "test-gateway-token")
    asked = {"message": "hi", "agentId": "main", "deliver": False, "timeout": 600, "idempotencyKey": "k2"}
    answer = asyncio.create_task(openclaw.request("agent", asked, expectFinal=True))
    await openclaw.event("sessions.changed", reason="created")  # the run was accepted in the same transaction
    await worker.start("k2")
    await worker.stream("k2", "Done")
    await worker.finish("k2")
    final = (await answer)["payload"]
    assert (final["status"], final["summary"], final["result"]["payloads"]) == ("ok", "completed", [{"text": "Done"}])


async def test_openclaw_client_aborts_a_run(openclaw, address, worker):
    await connected(openclaw, address, "test-gateway-token")
    await openclaw.call("chat.send", {"sessionKey": "main", "message": "hi", "idempotencyKey": "k3"})
    await worker.start("k3")
    await worker.stream("k3", "It was")
    stopped = await openclaw.call("chat.abort", {"sessionKey": "main", "runId": "k3"})
    assert (stopped["ok"], stopped["aborted"], stopped["runIds"]) == (True, True, ["k3"])
    await worker.abort("k3")
    assert (await openclaw.event("chat", state="aborted", runId="k3"))["stopReason"] == "rpc"


async def test_openclaw_client_understands_errors(openclaw, address, make_user, make_token):
    await connected(openclaw, address, make_token(make_user(name="ada"), "operator.read"))
    unknown = await openclaw.request("board.get", {})
    assert unknown["error"] == "unknown method: board.get"
    forbidden = await openclaw.request("chat.send", {"sessionKey": "main", "message": "hi", "idempotencyKey": "k"})
    assert (forbidden["code"], forbidden["details"]["code"]) == ("FORBIDDEN", "MISSING_SCOPE")
    gone = await openclaw.request("exec.approval.get", {"id": "00000000-0000-0000-0000-000000000000"})
    assert gone["details"] == {"reason": "APPROVAL_NOT_FOUND"}


async def test_openclaw_client_with_approvals_scope_lists_requests(openclaw, address, make_user, make_token):
    """`openclaw gateway call exec.approval.list` requests the method's published scope."""
    approver = make_token(make_user("Approver", name="ben"))
    hello = await connected(openclaw, address, approver, scopes=["operator.approvals"])
    assert hello["auth"]["scopes"] == ["operator.approvals"]
    assert await openclaw.call("exec.approval.list", {}) == []
    assert await openclaw.call("approval.history", {}) == {"items": []}


async def test_openclaw_client_with_wrong_token_is_rejected(openclaw, address):
    await openclaw.say(connect={"url": f"ws://{address}", "token": "claw_wrong"})
    refused = await openclaw.find(lambda line: "refused" in line)
    assert refused["refused"].startswith("unauthorized")


async def test_openclaw_client_reconnects_after_restart(openclaw, address, worker):
    await connected(openclaw, address, "test-gateway-token")
    await runtime.stop()
    assert (await openclaw.event("shutdown"))["reason"] == "service restart"
    closed = await openclaw.find(lambda line: "closed" in line)
    assert closed["closed"] == 1012
    await openclaw.find(lambda line: "hello" in line, openclaw.seen.index(closed))
    assert (await openclaw.call("health", {}))["ok"] is True
