"""The published schema: at its address, and true of what the server really sends."""

from typing import get_args

import jsonschema
from django.test import Client

from clawsite.gateway.protocol_intro import INTRODUCTION
from clawsite.gateway.schema import protocol_schema
from clawsite.gateway.session_events import Stream


def test_the_schema_is_published_without_signing_in(database):
    answer = Client().get("/api/protocol.json")
    assert answer.status_code == 200
    assert answer.json()["methods"]["agent"]["scope"] == "operator.write"


def test_every_stream_of_a_run_is_explained():
    _, _, table = INTRODUCTION.partition("| stream | `data` |")
    assert [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")] == list(get_args(Stream))


async def test_answers_and_events_are_as_published(sockets, hand):
    schema = protocol_schema()
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
        await hand.start(f"r{protocol}")
        await hand.say(f"r{protocol}", "so")
        for method, params in asked.items():
            if method == "sessions.reset":
                await hand.use(f"r{protocol}", "read")
                await hand.finish(f"r{protocol}")
                await socket.event("chat", state="final", runId=f"r{protocol}")
            jsonschema.validate(await socket.call(method, params), schema["methods"][method]["result"])
        await socket.event("presence")
        for frame in socket.seen:
            if frame["type"] == "event":
                jsonschema.validate(frame, schema["frames"]["event"])
                jsonschema.validate(frame["payload"], schema["events"][frame["event"]]["payload"])
            else:
                jsonschema.validate(frame, schema["frames"]["res"])
        assert {frame["event"] for frame in socket.seen if "event" in frame} >= {
            "agent",
            "chat",
            "session",
            "sessions.changed",
            "presence",
        }
        await socket.close()
