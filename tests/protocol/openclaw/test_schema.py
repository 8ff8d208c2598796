"""What a protocol 4 client receives, checked against the JSON Schema that OpenClaw publishes, with closed objects.

Frames must match exactly, because its client drops others. Payloads may have additional properties, which its clients ignore, but
only those in OURS: nothing is added by accident, or under a name with another meaning.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from agents.models import Agent
from clawsite.gateway.server import registry, runtime
from sessions_app.models import Run
from tests.harness.devices import FakeDevice
from tests.protocol.openclaw.packages import published

RESULTS = {
    "agent.identity.get": "AgentIdentityResult",
    "agents.files.get": "AgentsFilesGetResult",
    "agents.files.list": "AgentsFilesListResult",
    "agents.files.set": "AgentsFilesSetResult",
    "agents.list": "AgentsListResult",
    "commands.list": "CommandsListResult",
    "connect": "HelloOk",
    "exec.approvals.get": "ExecApprovalsSnapshot",
    "logs.tail": "LogsTailResult",
    "models.list": "ModelsListResult",
    "sessions.create": "SessionsCreateResult",
    "sessions.delete": "SessionsDeleteResult",
    "sessions.fork": "SessionsForkResult",
    "sessions.resolve": "SessionsResolveResult",
    "sessions.search": "SessionsSearchResult",
    "tools.catalog": "ToolsCatalogResult",
    "tools.effective": "ToolsEffectiveResult",
}
CHAT = {"delta": "ChatDeltaEvent", "final": "ChatFinalEvent", "aborted": "ChatAbortedEvent", "error": "ChatErrorEvent"}
EVENTS = {"agent": "AgentEvent", "session.operation": "SessionOperationEvent", "tick": "TickEvent", "shutdown": "ShutdownEvent"}
PARAMS = {
    "exec.approval.waitDecision": "ExecApprovalGetParams",
    "agent.identity.get": "AgentIdentityParams",
}
OF_NODES = {"commands", "caps", "permissions", "pathEnv"}  # commands that the node declares: the approver has to see them
# Our additional properties, by the path where they appear.
OURS = {
    "ExecApprovalGrantsListResult": {"grants/*": {"usesLeft", "scope", "subject", "line", "entries", "givenBy"}},
    "HelloOk": {"snapshot": {"epoch"}, "snapshot/health": {"runs", "waitingFor", "lanes", "workers", "stopped"}},
    "AgentEvent": {"": {"sessionKey", "sessionId", "cursor"}},  # OpenClaw's gateway sends the first one too
    **{name: {"": {"sessionId"}} for name in CHAT.values()},
    "DevicePairRequestedEvent": {"": {"reason", "account", "expiresAtMs", "version", *OF_NODES}},
    "ChatHistoryDeltaResult": {"": {"sessionKey", "sessionId"}},
    "ChatHistoryResetResult": {"": {"sessionKey", "sessionId"}},
    "SessionsDeleteResult": {"": {"sessionId"}},
    "SessionsForkResult": {"": {"ok", "key", "sessionId", "entry"}},
    "SessionsResolveResult": {"": {"sessionId"}},
    "SessionsSearchResult": {"": {"titles"}, "results/*": {"title", "matches", "sender"}},
    "ToolsEffectiveResult": {"": {"policyVersion", "refused", "notOffered"}, "groups/*/tools/*": {"group"}},
    "ToolsInvokeResult": {"": {"runId"}, "error": {"layer"}},
}


def faults(name: str, value: Any) -> Iterator[str]:
    schema = {"$ref": f"#/definitions/{name}", "definitions": published()["definitions"]}
    for error in jsonschema.Draft7Validator(schema).iter_errors(_without_ours(value, OURS.get(name, {}))):
        yield f"{name}, at /{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"


def _without_ours(value: Any, ours: dict[str, set[str]], place: str = "") -> Any:
    if isinstance(value, dict):
        kept = {name: part for name, part in value.items() if name not in ours.get(place, ())}
        return {name: _without_ours(part, ours, f"{place}/{name}".strip("/")) for name, part in kept.items()}
    if isinstance(value, list):
        return [_without_ours(part, ours, f"{place}/*".strip("/")) for part in value]
    return value


@pytest.fixture
async def client(sockets, make_user, make_token, settings, tmp_path):
    settings.LOG_DIRECTORY = tmp_path
    (tmp_path / "clawsite-2026-01-01.log").write_text("one line\nanother\n")
    operator = make_token(make_user("User", "Operator", "Approver", name="operator"))
    me = {"id": "openclaw-control-ui", "version": "2026.9.1", "platform": "linux", "mode": "webchat", "instanceId": "one"}
    return await sockets.connect(operator, client=me, caps=["tool-events"])


KEY = "agent:main:checked"
ASKED: dict[str, dict[str, Any]] = {
    "agent.identity.get": {"sessionKey": KEY},
    "agents.list": {},
    "agents.files.list": {"agentId": "main"},
    "agents.files.set": {"agentId": "main", "name": "SOUL.md", "content": "Be kind."},
    "agents.files.get": {"agentId": "main", "name": "SOUL.md"},
    "commands.list": {"includeArgs": True},
    "exec.approvals.get": {},
    "logs.tail": {"limit": 1},
    "models.list": {"view": "all"},
    "sessions.search": {"query": "note"},
    "sessions.resolve": {"key": KEY},
    "sessions.fork": {"sessionKey": KEY},
    "tools.catalog": {},
    "tools.effective": {"sessionKey": KEY},
    "sessions.delete": {"key": KEY},
}


async def test_responses_match_openclaw_schema(client, worker):
    answers = {
        "connect": client.hello,
        "sessions.create": await client.call("sessions.create", {"key": KEY, "displayName": "A note"}),
    }
    await client.call("chat.inject", {"sessionKey": KEY, "message": "A note from outside", "label": "cron"})
    for method, params in ASKED.items():
        answers[method] = await client.call(method, params)
    assert RESULTS.keys() == answers.keys()
    assert [fault for method, answer in answers.items() for fault in faults(RESULTS[method], answer)] == []


async def test_session_list_matches_openclaw_schema(client):
    await client.call("sessions.create", {"key": KEY, "label": "Checked"})
    rows = (await client.call("sessions.list", {"includeLastMessage": True}))["sessions"]
    described = (await client.call("sessions.describe", {"key": KEY}))["session"]
    assert rows
    for row in [*rows, described]:
        # OpenClaw omits these properties; here they are null, so that a cleared value can be recognized.
        assert list(faults("SessionRow", {name: value for name, value in row.items() if value is not None})) == []


async def test_history_delta_matches_openclaw_schema(client, worker):
    asked = {"sessionKey": KEY}
    await client.call("agent", {**asked, "message": "Go", "idempotencyKey": "one"})
    await worker.complete("one", "Gone")
    cursor = (await client.call("chat.history", asked))["deltaCursor"]
    for run_id in ("two", "three"):
        await client.call("agent", {**asked, "message": "Go on", "idempotencyKey": run_id})
    await worker.start("two")
    await worker.stream("two", "Going")
    delta = await client.call("chat.history", {**asked, "cursor": cursor, "inputRunIds": ["one", "three"]})
    assert list(faults("ChatHistoryDeltaResult", delta)) == []
    assert (len(delta["messages"]), delta["inFlightRun"]["runId"], delta["pendingInputs"]["total"]) == (1, "two", 1)
    assert [receipt["state"] for receipt in delta["inputReceipts"]] == ["consumed", "pending"]
    assert list(faults("ChatHistoryDeltaResult", await client.call("chat.startup", {**asked, "cursor": cursor}))) == []
    lost = await client.call("chat.history", {**asked, "cursor": "of another log"})
    assert list(faults("ChatHistoryResetResult", lost)) == []


async def test_events_and_frames_match_openclaw_schema(client, worker, eventually):
    for run_id in ("told", "stopped", "failed"):
        key = f"agent:main:{run_id}"
        await client.call("agent", {"sessionKey": key, "message": "Go", "idempotencyKey": run_id})
        await worker.start(run_id)
        await worker.stream(run_id, "One", " and two")
        await worker.use_tool(run_id, "read")
    await worker.finish("told")
    await client.call("chat.abort", {"sessionKey": "agent:main:stopped"})
    await worker.abort("stopped")
    await worker.fail("failed", "the model is away", "rate_limit")
    await client.send({"type": "req", "id": "c", "method": "sessions.compact", "params": {"key": "told", "idempotencyKey": "sum"}})
    await eventually(lambda: Run.objects.filter(run_id="sum").exists())
    await worker.start("sum")
    await worker.compact("sum", "they told", "m-told")
    for state, run_id in (("final", "told"), ("aborted", "stopped"), ("error", "failed")):
        await client.event("chat", state=state, runId=run_id)
    refused = await client.request("chat.send", {"sessionKey": "agent:main:told"})
    assert not refused["ok"]
    presence = await client.event("presence")
    assert presence["presence"]
    found = [fault for entry in presence["presence"] for fault in faults("PresenceEntry", entry)]
    seen = set()
    for frame in client.seen:
        found += faults("EventFrame" if frame["type"] == "event" else "ResponseFrame", frame)
        name = frame.get("event")
        shape = CHAT[frame["payload"]["state"]] if name == "chat" else EVENTS.get(name)
        if shape:
            seen.add(shape)
            found += faults(shape, frame["payload"])
    assert found == []
    assert seen == {"AgentEvent", "SessionOperationEvent", *CHAT.values()}


async def test_direct_tool_call_matches_openclaw_schema(stack, make_user):
    Agent.objects.create(slug="demo", name="Demo", model="demo/clawsite")
    async with stack().client(make_user()) as caller:
        wish = {"name": "write", "args": {"path": "a.md", "content": "# A"}}
        done = await caller.request("tools.invoke", wish)
        refused = await caller.request("tools.invoke", {**wish, "sessionKey": "agent:demo:main"})
        wrong = await caller.request("tools.invoke", {**wish, "args": {}})
    assert (done["ok"], refused["error"]["code"], wrong["ok"]) == (True, "tool_not_allowed", False)
    assert [fault for answer in (done, refused, wrong) for fault in faults("ToolsInvokeResult", answer)] == []


async def test_devices_and_nodes_match_openclaw_schema(sockets, make_user, make_token):
    """Yield an operator's device and a node, from the pairing request on; the node is invoked with and without parameters."""
    mine = {"token": make_token(make_user("Operator", "User"))}
    pairing = await sockets.connect(mine["token"])
    desk, node = FakeDevice(), FakeDevice()
    declared = {"role": "node", "commands": ["lights.on"], "caps": ["lights"], "permissions": {"lights": True}, "pathEnv": "/bin"}
    found = []
    for device, connect in ((desk, {}), (node, {**declared, "auth": mine})):
        request = {"requestId": (await device.connect_error(sockets, **connect))["details"]["requestId"]}
        found += faults("DevicePairRequestedEvent", await pairing.event("device.pair.requested", **request))
        await pairing.call("device.pair.approve", request)
        found += faults("DevicePairResolvedEvent", await pairing.event("device.pair.resolved", **request))
    socket = await node.connect(sockets, **declared, auth=mine)
    found += faults("NodeEventResult", await socket.call("node.event", {"event": "door.opened"}))
    for key, params in (("bare", {}), ("full", {"params": {"room": 1}})):
        wish = {"nodeId": node.id, "command": "lights.on", "idempotencyKey": key, **params}
        asking = asyncio.create_task(pairing.call("node.invoke", wish))
        asked = await socket.event("node.invoke.request", idempotencyKey=key)
        assert ("paramsJSON" in asked) == bool(params)
        found += faults("NodeInvokeRequestEvent", asked)
        await socket.call("node.invoke.result", {"id": asked["id"], "nodeId": node.id, "ok": True})
        await asking
    of_desk = {"deviceId": desk.id, "role": "operator"}
    found += faults("DeviceTokenRotateResult", await pairing.call("device.token.rotate", of_desk))
    itself = await desk.connect(sockets, auth=mine)
    rotated = await itself.call("device.token.rotate", of_desk)
    assert rotated["token"]
    found += faults("DeviceTokenRotateResult", rotated)
    assert found == []


async def test_missing_scope_error_matches_openclaw_schema(sockets, make_user, make_token):
    reader = await sockets.connect(make_token(make_user(name="reader"), "operator.read"))
    refused = await reader.request("chat.send", {"sessionKey": "main", "message": "hi", "idempotencyKey": "k"})
    assert refused["error"]["code"] == "FORBIDDEN"
    assert list(faults("MissingScopeErrorDetails", refused["error"]["details"])) == []


async def test_tick_and_shutdown_match_openclaw_schema(client):
    gateway = await runtime.get_runtime()
    await gateway.ticker.tick()  # 15 s are too long for a test
    assert list(faults("TickEvent", await client.event("tick"))) == []
    await runtime.stop()
    assert list(faults("ShutdownEvent", await client.event("shutdown"))) == []


def shared_methods() -> list[tuple[str, str]]:
    definitions = published()["definitions"]
    named = {
        name: PARAMS.get(name) or _camel(name) + "Params" for name in registry.list_methods() if name in published()["methods"]
    }
    return [(name, shape) for name, shape in sorted(named.items()) if shape in definitions]


def _camel(method: str) -> str:
    return "".join(part[0].upper() + part[1:] for part in method.split("."))


def test_every_openclaw_parameter_is_supported_or_rejected_with_reason():
    unknown = {}
    shared = shared_methods()
    assert len(shared) > 30
    for name, shape in shared:
        theirs = published()["definitions"][shape].get("properties", {})
        params = registry.list_methods()[name].params
        ours = {*params.refused, *(word for field in params.model_fields.values() for word in _words(field))}
        if missing := set(theirs) - ours:
            unknown[name] = sorted(missing)
    assert unknown == {}


def _words(field: Any) -> list[str]:
    """Return the names under which a parameter is accepted."""
    given = field.validation_alias
    return list(given.choices) if hasattr(given, "choices") else [given or field.alias]
