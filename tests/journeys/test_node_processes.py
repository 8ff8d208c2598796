"""A node connected to one web process is invoked through another: real processes, one database, one bus."""

import asyncio
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import pytest

from clawsite.gateway.models import NodeInvocation
from tests.harness.devices import FakeDevice
from tests.harness.protocol import SocketClients

pytestmark = pytest.mark.dialect


async def test_node_is_invoked_once_through_another_process(stack, make_user, eventually):
    running = stack(webs=2, workers=0)
    here, there = (SocketClients(urlsplit(url).netloc) for url in running.urls)
    olga = make_user("Operator", "User", name="olga")
    device, token = FakeDevice(), running.api_token(olga)
    async with AsyncExitStack() as leaving:
        leaving.push_async_callback(here.close)
        leaving.push_async_callback(there.close)
        asker = await there.connect(token)
        declared = {"role": "node", "commands": ["lights.on"], "auth": {"token": token}}
        request = (await device.connect_error(here, **declared))["details"]["requestId"]
        await asker.event("node.pair.requested", requestId=request)
        await asker.call("node.pair.approve", {"requestId": request})
        node = await device.connect(here, **declared)

        async def is_seen():
            return (await asker.call("node.describe", {"nodeId": device.id}))["connected"]

        await eventually(is_seen)
        wish = {"nodeId": device.id, "command": "lights.on", "idempotencyKey": "k1", "timeoutMs": 30_000}
        second = await here.connect(token)
        asking = [asyncio.create_task(socket.call("node.invoke", wish)) for socket in (asker, second, asker)]
        asked = await node.event("node.invoke.request")
        await node.call("node.invoke.result", {"id": asked["id"], "nodeId": device.id, "ok": True, "payload": {"lit": True}})
        assert [answer["payload"] for answer in await asyncio.gather(*asking)] == [{"lit": True}] * 3
        await node.call("node.event", {"event": "door.opened"})
        assert (await asker.event("node.event"))["event"] == "door.opened"

        assert (await asker.call("node.broadcast", {"event": "night"}))["nodeIds"] == [device.id]
        assert (await node.event("node.broadcast"))["event"] == "night"

        lost = asyncio.create_task(asker.request("node.invoke", {**wish, "idempotencyKey": "k2", "timeoutMs": 2_000}))
        await node.event("node.invoke.request", idempotencyKey="k2")
        running.webs[0].kill()  # the node's process, before the answer
        answer = await lost
        assert answer["error"]["details"]["nodeError"]["code"] == "TIMEOUT"
        again = await device.connect(there, **declared)
        repeated = await asker.request("node.invoke", {**wish, "idempotencyKey": "k2"})
        assert repeated["error"]["details"]["nodeError"]["code"] == "TIMEOUT"
        assert again.events("node.invoke.request") == []
        await asker.call("device.pair.remove", {"deviceId": device.id})
        assert await again.closed() == (4001, "auth changed")
    assert list(NodeInvocation.objects.values_list("status", flat=True).order_by("created_at")) == ["done", "failed"]
