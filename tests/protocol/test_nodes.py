"""Nodes: approved by a person, listed, invoked once, answered; and how little else they see."""

import asyncio
import json

import pytest

from clawsite.gateway.methods.nodes import broadcast, invoke, shapes
from clawsite.gateway.models import Device, NodeInvocation
from clawsite.gateway.protocol import limits
from clawsite.gateway.server import registry, runtime
from clawsite.infra import bus, db
from clawsite.infra.models import AuditEntry
from tests.harness.devices import FakeDevice

pytestmark = pytest.mark.dialect

COMMANDS = ["lights.on", "lights.off", "system.run"]
DECLARED = {"commands": COMMANDS, "caps": ["lights"], "permissions": {"lights": True}, "pathEnv": "/usr/bin"}


@pytest.fixture
def people(make_user):
    return {
        "ada": make_user("User", name="ada"),
        "olga": make_user("Operator", "User", name="olga"),
        "eve": make_user("User", name="eve"),
    }


@pytest.fixture
def tokens(people, make_token):
    return {name: make_token(user) for name, user in people.items()}


@pytest.fixture
def device():
    return FakeDevice()


@pytest.fixture
async def ada(sockets, tokens):
    return await sockets.connect(tokens["ada"])


@pytest.fixture
async def olga(sockets, tokens):
    return await sockets.connect(tokens["olga"])


@pytest.fixture
def node(device, sockets, tokens, olga):
    """Connect as a node of ada, approved by olga the first time."""

    async def come(**connect):
        if not device.token:
            error = await device.connect_error(sockets, role="node", auth={"token": tokens["ada"]}, **DECLARED)
            await olga.call("node.pair.approve", {"requestId": error["details"]["requestId"]})
            return await device.connect(sockets, role="node", auth={"token": tokens["ada"]}, **DECLARED)
        return await device.connect(sockets, role="node", auth={"token": device.token}, **{**DECLARED, **connect})

    return come


def asked(device, command="lights.on", key="k1", **more):
    return {"nodeId": device.id, "command": command, "idempotencyKey": key, **more}


async def fault(socket, method, params):
    answer = await socket.request(method, params)
    assert not answer["ok"], answer
    return answer["error"]


async def answer_next(node, device, **result):
    """Respond to the node's first invocation, and return the request."""
    request = await node.event("node.invoke.request")
    told = {"id": request["id"], "nodeId": device.id, "ok": True, **result}
    return request, await node.call("node.invoke.result", told)


async def test_node_always_requires_approval(device, sockets, tokens, olga):
    error = await device.connect_error(sockets, role="node", auth={"token": tokens["olga"]}, **DECLARED)
    assert (error["code"], error["details"]["reason"], error["details"]["requestedRole"]) == ("NOT_PAIRED", "not-paired", "node")
    request = error["details"]["requestId"]
    heard = await olga.event("node.pair.requested", requestId=request)
    assert (heard["nodeId"], heard["commands"], heard["account"]) == (device.id, COMMANDS, "olga")
    assert await olga.event("device.pair.requested", requestId=request)
    (waiting,) = (await olga.call("node.pair.list"))["pending"]
    assert (waiting["displayName"], waiting["nodeId"]) == ("Kitchen", device.id)
    approved = await olga.call("node.pair.approve", {"requestId": request})
    assert approved["device"]["allowedCommands"] == ["lights.on", "lights.off"], "nothing of system.* without a choice"
    assert (await olga.event("node.pair.resolved", requestId=request))["decision"] == "approved"
    node = await device.connect(sockets, role="node", auth={"token": tokens["olga"]}, **DECLARED)
    assert (node.hello["auth"]["role"], node.hello["auth"]["scopes"]) == ("node", [])
    assert node.hello["features"]["methods"] == ["connect", "node.event", "node.invoke.result"]
    assert node.hello["snapshot"]["presence"] == []
    assert await device.connect(sockets, role="node", auth={"token": device.token}, **DECLARED)


async def test_role_change_of_a_device_requires_approval(device, sockets, tokens, olga):
    await device.connect(sockets, auth={"token": tokens["ada"]})
    for auth in ({"token": tokens["ada"]}, {"token": device.token}):
        error = await device.connect_error(sockets, role="node", auth=auth, **DECLARED)
        assert (error["details"]["reason"], error["details"]["approvedRoles"]) == ("role-upgrade", ["operator"])
    await olga.call("node.pair.approve", {"requestId": error["details"]["requestId"]})
    node = await device.connect(sockets, role="node", auth={"token": tokens["ada"]}, **DECLARED)
    assert node.hello["auth"]["deviceToken"], "each role has a token of its own"
    error = await device.connect_error(sockets, auth={"token": device.token})
    assert error["details"]["reason"] == "role-upgrade", "the token of a node is no operator's"


async def test_operator_request_cannot_be_approved_as_node(device, sockets, olga):
    error = await device.connect_error(sockets)
    assert (await fault(olga, "node.pair.approve", {"requestId": error["details"]["requestId"]}))["code"] == "NOT_FOUND"


@pytest.mark.parametrize(("protocol", "code"), [(4, "FORBIDDEN"), (3, "INVALID_REQUEST")])
async def test_each_role_is_limited_to_its_methods(device, sockets, tokens, node, protocol, code):
    await node()
    one = await node(protocol=protocol)
    operator = await sockets.connect(tokens["olga"], protocol=protocol)
    for caller, role, others in ((one, "node", "operator"), (operator, "operator", "node")):
        for method in registry.list_method_names(others):
            error = await fault(caller, method, {})
            assert (error["code"], error["message"]) == (code, f"unauthorized role: {role}"), method


async def test_node_is_visible_only_to_its_owner(device, sockets, tokens, ada, olga, node, eventually):
    socket = await node()
    (listed,) = (await ada.call("node.list"))["nodes"]
    assert (listed["nodeId"], listed["connected"], listed["displayName"]) == (device.id, True, "Kitchen")
    assert (listed["commands"], listed["otherCommands"]) == (["lights.on", "lights.off"], ["system.run"])
    assert (listed["caps"], listed["permissions"], listed["pathEnv"]) == (["lights"], {"lights": True}, "/usr/bin")
    assert await ada.call("node.describe", {"nodeId": device.id}) == listed
    eve = await sockets.connect(tokens["eve"])
    for other in (eve, olga):  # olga manages all devices: she can pair and remove them, but not invoke them
        assert (await other.call("node.list"))["nodes"] == []
        for owner in ({}, {"owner": "ada"}):
            assert (await fault(other, "node.describe", {"nodeId": device.id, **owner}))["code"] == "NOT_FOUND"
            assert (await fault(other, "node.invoke", {**asked(device), **owner}))["code"] == "NOT_FOUND"
    (paired,) = (await olga.call("node.pair.list"))["paired"]
    assert (paired["deviceId"], paired["nodeId"]) == (device.id, device.id)
    present = [entry for entry in await ada.call("system-presence") if entry.get("roles") == ["node"]]
    assert [(entry["deviceId"], entry["mode"]) for entry in present] == [(device.id, "node")]
    await socket.close()

    async def gone():
        return not (await ada.call("node.describe", {"nodeId": device.id}))["connected"]

    await eventually(gone)


async def test_node_invocation_returns_its_result(device, ada, node):
    socket = await node()
    wish = {**asked(device, params={"room": "kitchen"}), "idempotencyKey": "k1"}
    asking = asyncio.create_task(ada.call("node.invoke", {**wish, "timeoutMs": 20_000}))
    request, told = await answer_next(socket, device, payload={"lit": True})
    assert told == {"ok": True}
    assert (request["command"], request["paramsJSON"], request["idempotencyKey"]) == ("lights.on", '{"room":"kitchen"}', "k1")
    answer = await asking
    assert (answer["ok"], answer["nodeId"], answer["payload"], answer["payloadJSON"]) == (
        True,
        device.id,
        {"lit": True},
        '{"lit":true}',
    )
    again = await ada.call("node.invoke", wish)
    assert again == answer, "the same key is the same invocation"
    assert len(socket.events("node.invoke.request")) == 1
    assert (await fault(ada, "node.invoke", asked(device, params={"room": "hall"})))["code"] == "CONFLICT"
    late = {"id": request["id"], "nodeId": device.id, "ok": True, "payload": 2}
    assert await socket.call("node.invoke.result", late) == {"ok": True, "ignored": True}
    about = AuditEntry.objects.filter(action__startswith="node.", subject_id=device.id)
    rows = await db.read(lambda: list(about.order_by("pk").values()))
    assert [(row["action"], row["actor_name"], row["details"].get("outcome")) for row in rows] == [
        ("node.invoked", "ada", None),
        ("node.ended", "ada", "done"),
    ]
    assert "kitchen" not in str(rows), "what was asked is in its row, not in the log"


async def test_node_failure_is_returned_with_its_code(device, ada, node):
    socket = await node()
    asking = asyncio.create_task(fault(ada, "node.invoke", asked(device)))
    await answer_next(socket, device, ok=False, error={"code": "NO_BULB", "message": "there is no bulb"})
    error = await asking
    assert (error["code"], error["message"]) == ("UNAVAILABLE", "there is no bulb")
    assert error["details"]["nodeError"] == {"code": "NO_BULB", "message": "there is no bulb"}


async def test_oversized_node_result_is_rejected_with_an_error(device, ada, node):
    """The result consists of quotation marks, each of which takes two characters in JSON inside JSON."""
    socket = await node()
    results = {"small": ['"'] * 50_000, "large": ['"'] * 150_000, "too large": ['"'] * 250_000}
    answers = {}
    for key, payload in results.items():
        await ada.send({"type": "req", "id": key, "method": "node.invoke", "params": asked(device, key=key)})
        request = await socket.event("node.invoke.request", idempotencyKey=key)
        told = await socket.request(
            "node.invoke.result", {"id": request["id"], "nodeId": device.id, "ok": True, "payload": payload}
        )
        assert told["ok"] == (key != "too large")
        answers[key] = await ada.response(key)
    assert "exceeds 764 KiB" in told["error"]["message"]
    for key in ("small", "large"):
        assert answers[key]["payload"]["payload"] == results[key]
    assert answers["small"]["payload"]["payloadJSON"]
    assert answers["large"]["payload"]["payloadJSON"] is None
    assert all(len(json.dumps(answer, separators=(",", ":"))) <= limits.MAX_REPLY_BYTES for answer in answers.values())
    error = answers["too large"]["error"]["details"]["nodeError"]
    assert error["code"] == "RESULT_TOO_LARGE"
    assert "ran the command" in error["message"]


async def test_disconnected_node_is_not_invoked_and_nothing_is_stored(device, ada, node):
    socket = await node()
    await socket.close()
    error = await _until_not_connected(ada, device)
    assert error["retryable"] is True
    assert not await db.read(NodeInvocation.objects.exists)


async def _until_not_connected(ada, device):
    async with asyncio.timeout(20):
        while True:
            error = await fault(ada, "node.invoke", asked(device, timeoutMs=100, key=f"{asyncio.get_running_loop().time()}"))
            if error["details"]["nodeError"]["code"] == "NOT_CONNECTED":
                await db.write(NodeInvocation.objects.all().delete)
                return await fault(ada, "node.invoke", asked(device))


async def test_unresponsive_node_times_out_and_is_not_invoked_again(device, ada, node):
    socket = await node()
    error = await fault(ada, "node.invoke", asked(device, timeoutMs=100))
    assert error["details"]["nodeError"]["code"] == "TIMEOUT"
    again = await node()
    assert (await fault(ada, "node.invoke", asked(device)))["details"]["nodeError"]["code"] == "TIMEOUT"
    assert again.events("node.invoke.request") == []
    request = (await socket.event("node.invoke.request"))["id"]
    late = {"id": request, "nodeId": device.id, "ok": True}
    assert await socket.call("node.invoke.result", late) == {"ok": True, "ignored": True}


async def test_request_to_unresponsive_node_is_dropped_after_timeout(device, ada, node, eventually):
    socket = await node()
    desk = (await runtime.get_runtime()).nodes
    error = await fault(ada, "node.invoke", asked(device, timeoutMs=1_000))
    assert error["details"]["nodeError"]["code"] == "TIMEOUT"
    assert len(socket.events("node.invoke.request")) == 1
    await eventually(lambda: list(desk._sent.values()) == [{}])
    assert not socket._reader.done(), "it is still connected"


async def test_node_that_disconnects_before_replying_is_not_invoked_again(device, ada, node):
    socket = await node()
    asking = asyncio.create_task(fault(ada, "node.invoke", asked(device, timeoutMs=20_000)))
    await socket.event("node.invoke.request")
    await socket.close()
    error = await asking
    assert error["details"]["nodeError"]["code"] == "UNAVAILABLE"
    assert "unknown whether" in error["message"]
    again = await node()
    assert (await fault(ada, "node.invoke", asked(device)))["message"] == error["message"]
    assert again.events("node.invoke.request") == []


async def test_invocation_lost_by_the_bus_is_found_by_polling(device, ada, node, monkeypatch):
    monkeypatch.setattr(bus, "publish", lambda message: None)
    socket = await node()
    asking = asyncio.create_task(ada.call("node.invoke", asked(device, timeoutMs=20_000)))
    await answer_next(socket, device, payload=1)
    assert (await asking)["payload"] == 1


async def test_only_declared_and_allowed_commands_can_be_invoked(device, ada, olga, node):
    socket = await node()
    assert "not declared" in (await fault(ada, "node.invoke", asked(device, "doors.open")))["message"]
    assert "not allowed" in (await fault(ada, "node.invoke", asked(device, "system.run")))["message"]
    wrong = {"nodeId": device.id, "commands": ["doors.open"]}
    assert (await fault(olga, "node.allow", wrong))["code"] == "INVALID_REQUEST"
    allowed = await olga.call("node.allow", {"nodeId": device.id, "commands": ["system.run"]})
    assert allowed["allowedCommands"] == ["system.run"]
    assert "not allowed" in (await fault(ada, "node.invoke", asked(device)))["message"]
    asking = asyncio.create_task(ada.call("node.invoke", asked(device, "system.run")))
    await answer_next(socket, device)
    assert (await asking)["payload"] is None
    await node(commands=[*COMMANDS, "lights.dim"])
    assert "not allowed" in (await fault(ada, "node.invoke", asked(device, "lights.dim", key="k2")))["message"]


async def test_approver_chooses_the_allowed_node_commands(device, sockets, olga):
    error = await device.connect_error(sockets, role="node", **DECLARED)
    request = {"requestId": error["details"]["requestId"]}
    assert (await fault(olga, "device.pair.approve", {**request, "commands": ["doors.open"]}))["code"] == "INVALID_REQUEST"
    answer = await olga.call("device.pair.approve", {**request, "commands": ["lights.off"]})
    assert (answer["device"]["allowedCommands"], answer["device"]["owner"]) == (["lights.off"], "olga")
    assert await device.connect(sockets, role="node", **DECLARED), "its signature fetches the token that waits for it"


async def test_invalid_parameters_are_named(device, ada, node):
    await node()
    for wrong in ({"timeoutMs": -1}, {"timeoutMs": "soon"}, {"idempotencyKey": ""}, {"unknown": 1}):
        assert (await fault(ada, "node.invoke", {**asked(device), **wrong}))["code"] == "INVALID_REQUEST"
    reader = await fault(ada, "node.invoke", {"nodeId": device.id, "command": "lights.on"})
    assert "idempotencyKey" in reader["message"]


async def test_read_only_client_cannot_invoke_a_node(device, sockets, people, make_token, node):
    await node()
    reader = await sockets.connect(make_token(people["ada"], "operator.read"))
    assert (await reader.call("node.list"))["nodes"]
    assert (await fault(reader, "node.invoke", asked(device)))["details"]["missingScope"] == "operator.write"


async def test_node_can_only_return_its_own_results(device, sockets, tokens, ada, olga, node):
    socket = await node()
    asking = asyncio.create_task(ada.call("node.invoke", asked(device, timeoutMs=20_000)))
    request = await socket.event("node.invoke.request")
    other = FakeDevice()
    error = await other.connect_error(sockets, role="node", auth={"token": tokens["ada"]}, **DECLARED)
    await olga.call("node.pair.approve", {"requestId": error["details"]["requestId"]})
    stranger = await other.connect(sockets, role="node", auth={"token": tokens["ada"]}, **DECLARED)
    forged = {"id": request["id"], "nodeId": other.id, "ok": True, "payload": "forged"}
    assert await stranger.call("node.invoke.result", forged) == {"ok": True, "ignored": True}
    assert (await fault(stranger, "node.invoke.result", {**forged, "nodeId": device.id}))["code"] == "INVALID_REQUEST"
    assert stranger.events("node.invoke.request") == []
    await answer_next(socket, device, payload="true")
    assert (await asking)["payload"] == "true"


async def test_missing_owner_check_on_invoke_is_detected(device, sockets, tokens, node, monkeypatch):
    """Deliberate fault: users can invoke all nodes that they manage."""
    socket = await node()
    monkeypatch.setattr(invoke, "find_own_node", shapes.find_managed_node)
    olga = await sockets.connect(tokens["olga"])
    asking = asyncio.create_task(olga.call("node.invoke", asked(device, timeoutMs=20_000)))
    await answer_next(socket, device, payload=1)
    assert (await asking)["payload"] == 1


async def test_client_cannot_impersonate_a_node_in_presence(device, sockets, tokens, ada, node):
    await node()
    (row,) = await db.read(lambda: list(Device.objects.filter(is_node=True).values_list("pk", flat=True)))
    client = {"id": "test", "version": "1", "platform": "linux", "mode": "ui", "displayName": "Fake"}
    for instance in (f"node {row}", device.id, "twin"):
        await sockets.connect(tokens["eve"], client={**client, "instanceId": instance})
    await sockets.connect(tokens["ada"], client={**client, "instanceId": "twin", "displayName": "True"})
    present = await ada.call("system-presence")
    nodes_there = [entry for entry in present if entry.get("roles") == ["node"]]
    assert [(entry["deviceId"], entry["user"]["name"]) for entry in nodes_there] == [(device.id, "ada")]
    twins = {(entry["host"], entry["user"]["name"]) for entry in present if entry.get("instanceId") == "twin"}
    assert twins == {("Fake", "eve"), ("True", "ada")}


async def test_node_events_reach_only_its_owner(device, sockets, tokens, ada, olga, node):
    socket = await node()
    eve = await sockets.connect(tokens["eve"])
    told = await socket.call("node.event", {"event": "door.opened", "payloadJSON": '{"door": 1}'})
    assert told == {"ok": True, "event": "door.opened", "handled": True}
    heard = await ada.event("node.event", event="door.opened")
    assert (heard["nodeId"], heard["payload"]) == (device.id, {"door": 1})
    await eve.call("health")
    assert eve.events("node.event") == olga.events("node.event") == []
    assert (await fault(socket, "node.event", {"event": "big", "payload": "x" * 70_000}))["code"] == "INVALID_REQUEST"


async def test_broadcast_reaches_only_own_nodes(device, sockets, tokens, ada, olga, node):
    socket = await node()
    foreign = FakeDevice()
    error = await foreign.connect_error(sockets, role="node", auth={"token": tokens["eve"]}, **DECLARED)
    await olga.call("node.pair.approve", {"requestId": error["details"]["requestId"]})
    strange = await foreign.connect(sockets, role="node", auth={"token": tokens["eve"]}, **DECLARED)
    words = {"event": "night", "payload": {"dim": 1}, "idempotencyKey": "n1"}
    told = {"ok": True, "nodeIds": [device.id]}
    assert await ada.call("node.broadcast", words) == told
    assert await ada.call("node.broadcast", words) == told, "nothing is stored: a repeat is told again, and can be known by its key"
    heard = await socket.event("node.broadcast", event="night")
    assert (heard["payloadJSON"], heard["idempotencyKey"]) == ('{"dim":1}', "n1")
    assert (await ada.call("node.broadcast", {"event": "some", "nodeIds": [device.id]}))["nodeIds"] == [device.id]
    assert "payloadJSON" not in await socket.event("node.broadcast", event="some")
    for other in (olga, ada):  # olga manages all devices, but can't broadcast to them
        not_hers = [device.id] if other is olga else [device.id, foreign.id]
        assert (await fault(other, "node.broadcast", {**words, "nodeIds": not_hers}))["code"] == "NOT_FOUND"
    assert (await olga.call("node.broadcast", words))["nodeIds"] == []
    assert (await fault(ada, "node.broadcast", {"event": "big", "payload": "x" * 70_000}))["code"] == "INVALID_REQUEST"
    await strange.call("node.event", {"event": "still.here"})
    assert strange.events("node.broadcast") == []
    assert [told["event"] for told in socket.events("node.broadcast")] == ["night", "night", "some"]
    rows = AuditEntry.objects.filter(action="node.told", subject_id=device.id)
    assert await db.read(lambda: list(rows.order_by("pk").values_list("actor_name", flat=True))) == ["ada"] * 3


async def test_missing_owner_check_on_broadcast_is_detected(device, olga, node, monkeypatch):
    """Deliberate fault: users can broadcast to all nodes that they manage."""
    socket = await node()
    monkeypatch.setattr(broadcast, "find_own_node", shapes.find_managed_node)
    assert (await olga.call("node.broadcast", {"event": "night", "nodeIds": [device.id]}))["nodeIds"] == [device.id]
    assert await socket.event("node.broadcast", event="night")


async def test_read_only_client_cannot_send_to_a_node(device, sockets, people, make_token, node):
    await node()
    reader = await sockets.connect(make_token(people["ada"], "operator.read"))
    assert (await fault(reader, "node.broadcast", {"event": "night"}))["details"]["missingScope"] == "operator.write"


async def test_node_gets_no_chat_events_of_its_owner(device, ada, node, worker):
    socket = await node()
    await ada.call("chat.send", {"sessionKey": "main", "message": "secret", "idempotencyKey": "run"})
    await worker.complete("run", "also secret")
    await ada.event("chat", state="final")
    asking = asyncio.create_task(ada.call("node.invoke", asked(device)))
    await answer_next(socket, device)
    await asking
    assert {frame.get("event") for frame in socket.seen if "event" in frame} <= {"connect.challenge", "node.invoke.request", "tick"}


async def test_assigned_node_name_is_kept(device, ada, olga, node):
    await node()
    assert await olga.call("node.rename", {"nodeId": device.id, "displayName": "Cellar"}) == {
        "nodeId": device.id,
        "displayName": "Cellar",
    }
    await node(commands=["lights.off"])
    described = await ada.call("node.describe", {"nodeId": device.id})
    assert (described["displayName"], described["commands"]) == ("Cellar", ["lights.off"])
    assert (await fault(olga, "node.rename", {"nodeId": device.id, "displayName": ""}))["code"] == "INVALID_REQUEST"


async def test_revoked_node_is_disconnected(device, olga, node):
    socket = await node()
    await olga.call("device.pair.remove", {"deviceId": device.id})
    assert await socket.closed() == (4001, "auth changed")
    assert (await olga.call("node.list"))["nodes"] == []
    assert await db.read(Device.objects.filter(revoked_at__isnull=False).count) == 1
