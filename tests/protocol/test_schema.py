"""The published schema: at its URL, and consistent with what the server really sends, which all sockets of the tests check."""

from dataclasses import replace
from typing import get_args

import pytest
from django.test import Client

from clawsite.gateway.protocol.events.sessions import StreamName
from clawsite.gateway.server import registry
from clawsite.gateway.server.docs_intro import INTRODUCTION


def test_schema_is_public(database):
    answer = Client().get("/api/protocol.json")
    assert answer.status_code == 200
    methods = answer.json()["methods"]
    assert (methods["agent"]["scope"], methods["agent"]["scopes"]) == ("operator.write", ["operator.write"])
    assert methods["exec.approval.list"]["scopes"] == ["operator.read", "operator.approvals"]


def test_every_run_stream_is_documented():
    _, _, table = INTRODUCTION.partition("| stream | `data` |")
    assert [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")] == list(get_args(StreamName))


async def test_responses_and_events_match_the_schema(sockets, worker):
    for protocol in (1, 4):
        socket = await sockets.connect(protocol=protocol, caps=["tool-events"], client={"id": "page", "mode": "webchat"})
        key = f"agent:main:p{protocol}"
        asked = {
            "sessions.create": {"key": key},
            "chat.send": {"sessionKey": key, "message": "hi", "idempotencyKey": f"k{protocol}"},
            "chat.history": {"sessionKey": key},
            "chat.inject": {"sessionKey": key, "message": "note"},
            "sessions.history": {"sessionKey": key, "fromStateVersion": 0},
            "sessions.list": {"includeLastMessage": True},
            "sessions.preview": {"keys": [key]},
            "sessions.resolve": {"key": key},
            "sessions.patch": {"key": key, "thinkingLevel": "low"},
            "sessions.read": {"key": key},
            "sessions.search": {"query": "note"},
            "sessions.fork": {"key": key},
            "sessions.subscribe": {},
            "sessions.messages.subscribe": {"key": key, "fromStateVersion": 1},
            "sessions.messages.unsubscribe": {"key": key},
            "models.list": {},
            "commands.list": {},
            "chat.render": {"blocks": ["*a*"]},
            "agents.list": {},
            "health": {},
            "status": {},
            "system-presence": {},
            "sessions.reset": {"key": key},
            "agent.wait": {"runId": f"r{protocol}"},
            "chat.abort": {"sessionKey": key},
            "sessions.delete": {"key": key},
        }
        await socket.call("agent", {"sessionKey": key, "message": "run", "idempotencyKey": f"r{protocol}"})
        await worker.start(f"r{protocol}")
        await worker.stream(f"r{protocol}", "so")
        for method, params in asked.items():
            if method == "sessions.reset":
                await worker.use_tool(f"r{protocol}", "read")
                await worker.finish(f"r{protocol}")
                await socket.event("chat", state="final", runId=f"r{protocol}")
            await socket.call(method, params)
        await socket.event("presence")
        assert {frame["event"] for frame in socket.seen if "event" in frame} >= {
            "agent",
            "chat",
            "session",
            "sessions.changed",
            "presence",
        }
        await socket.close()


@pytest.mark.parametrize("answer", [{"models": "none"}, {}, {"models": [], "more": 1}])
async def test_schema_mismatch_is_detected(answer, sockets, monkeypatch):
    """Deliberate fault: a wrong type, a missing property, and one that is not published."""

    async def wrong(call, params):
        return answer

    monkeypatch.setitem(registry.list_methods(), "models.list", replace(registry.list_methods()["models.list"], handler=wrong))
    socket = await sockets.connect()
    with pytest.raises(AssertionError, match="methods/models.list/result"):
        await socket.request("models.list")
    socket.faults.clear()
