"""Arbitrary parameters always get a response, and never an internal error."""

import itertools

import pytest

from clawsite.gateway.server.schema import protocol_schema
from tests.harness.devices import FakeDevice

WORDS = ["", " ", "x", "x" * 1000, "\0", "a\0b", "9" * 5000, "main", "agent:main:main\n", "agent::", "' OR 1=1 --", "%", "𝕏\u202e"]
TIMES = ["2026-02-01T10:15:00Z", "2026-02-01", "9999-99-99T00:00:00Z", "0001-01-01T00:00:00+14:00"]
IDS = ["00000000-0000-4000-8000-000000000000", "operator.admin", "inject-1"]
OTHERS = [None, True, 0, 1, -1, 1.5, 1e308, 2**53, 2**70, [], [None], ["x"], {}, {"a": 1}]

VALID = {
    "sessionKey": "agent:main:main",
    "key": "agent:main:other",
    "message": "hi",
    "runId": "k",
    "keys": ["main"],
    "timeoutMs": 0,
}

METHODS = {name: list(method["params"].get("properties", ())) for name, method in protocol_schema()["methods"].items()}


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"connect"}))
async def test_malformed_input_never_causes_an_internal_error(method, sockets):
    socket = await sockets.connect(caps=["session-scoped-events"])
    await socket.call("sessions.create", {"key": "agent:main:main"})
    await talk_nonsense(socket, method)
    assert await socket.call("health")


OF_DEVICES = [name for name in sorted(METHODS) if name.startswith(("device.", "node."))]
ROLES = {name: method["role"] for name, method in protocol_schema()["methods"].items()}


@pytest.mark.parametrize("method", OF_DEVICES)
async def test_malformed_input_from_authorized_clients_gets_a_response(method, sockets, make_user, make_token):
    """The gateway token may not pair devices, so these are an operator, and a node for methods of nodes."""
    device, token = FakeDevice(), make_token(make_user("Operator", "User"))
    operator = await sockets.connect(token)
    declared = {"role": "node", "auth": {"token": token}, "commands": ["lights.on"]}
    request = (await device.connect_error(sockets, **declared))["details"]["requestId"]
    await operator.call("node.pair.approve", {"requestId": request})
    node = await device.connect(sockets, **declared)
    valid = {"deviceId": device.id, "nodeId": device.id, "requestId": request, "role": "node", "displayName": "x", "event": "e"}
    await talk_nonsense(
        node if ROLES[method] == "node" else operator,
        method,
        {**valid, "command": "lights.on", "commands": ["lights.on"], "id": request, "ok": True, "timeoutMs": 100},
    )
    assert await operator.call("health")


async def talk_nonsense(socket, method, more=None):
    numbers = itertools.count(1)
    for field, value in itertools.product(METHODS[method], [*WORDS, *TIMES, *IDS, *OTHERS]):
        params = {name: valid for name, valid in {**VALID, **(more or {})}.items() if name in METHODS[method]}
        if "idempotencyKey" in METHODS[method]:
            params["idempotencyKey"] = f"k{next(numbers)}"
        answer = await socket.request(method, {**params, field: value})
        assert answer["ok"] or answer["error"]["message"], answer
        assert not answer.get("error", {}).get("message", "").startswith("internal error"), (field, value, answer)
