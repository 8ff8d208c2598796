"""Committed events as clients read them: one event of the log becomes one or two frames, in one or both dialects. Pure."""

from dataclasses import dataclass, field, replace
from typing import Any

from clawsite.gateway.protocol.frames import Dialect, EncodedEvent, encode_event

Payload = dict[str, Any]

TOOL_EVENTS = "tool-events"  # the capability a client of protocol 3 or 4 declares to be told about tools


@dataclass(frozen=True, slots=True)
class SessionName:
    """How its owner's clients know a session, whose key is unique among theirs. Others call it by `shared_key`."""

    id: str
    key: str


@dataclass(slots=True)
class OutgoingEvent:
    """An event for many connections, encoded at most once per dialect. A dialect without a payload is not told."""

    event: str
    modern: Payload | None
    classic: Payload | None
    classic_version: int | None = None  # protocol 1: the session's cursor
    state_version: dict[str, int] | None = None  # protocols 3 and 4: versions of presence and health
    needs: str = ""  # a capability that clients of protocols 3 and 4 must have declared
    droppable: bool = False
    _encoded: dict[Dialect, EncodedEvent | None] = field(default_factory=dict)

    def encoded(self, dialect: Dialect) -> EncodedEvent | None:
        if dialect not in self._encoded:
            payload = self.modern if dialect == "modern" else self.classic
            version = self.state_version if dialect == "modern" else self.classic_version
            self._encoded[dialect] = None if payload is None else encode_event(self.event, payload, state_version=version)
        return self._encoded[dialect]

    def about(self, key: str) -> "OutgoingEvent":
        """The same for somebody who knows the session by another key."""
        modern, classic = ({**payload, "sessionKey": key} if payload else None for payload in (self.modern, self.classic))
        return replace(self, modern=modern, classic=classic, _encoded={})


def to_outgoing(event: Payload, session: SessionName) -> list[OutgoingEvent]:
    """An event of the log. Those of a run are `agent` events; those of the session alone are `session` events."""
    if event["runId"] is None:
        payload = {
            "sessionKey": session.key,
            "sessionId": session.id,
            "cursor": event["cursor"],
            "ts": event["ts"],
            **event["data"],
        }
        return [OutgoingEvent("session", payload, payload, classic_version=event["cursor"])]
    payload = {
        "runId": event["runId"],
        "seq": event["seq"],
        "stream": event["stream"],
        "ts": event["ts"],
        "sessionKey": session.key,
        "sessionId": session.id,
        "cursor": event["cursor"],
        "data": event["data"],
    }
    classic = payload
    if event["stream"] == "assistant" and "delta" in event["data"]:
        classic = {**payload, "delta": event["data"]["delta"]}  # where protocol 1 looks for it
    about_tools = event["stream"] in ("tool", "toolcall")
    told = [OutgoingEvent("agent", payload, classic, classic_version=event["cursor"], needs=TOOL_EVENTS if about_tools else "")]
    if event["stream"] == "tool":
        told.append(OutgoingEvent("tool", None, _to_tool_event(event, session), classic_version=event["cursor"]))
    if event["stream"] == "compaction":
        operation = _to_operation(event, session)
        told.append(OutgoingEvent("session.operation", operation, operation, classic_version=event["cursor"]))
    return told


def _to_operation(event: Payload, session: SessionName) -> Payload:
    """OpenClaw's event for what is done to a session as a whole. The run that does it names it."""
    data = event["data"]
    payload = {
        "operationId": event["runId"],
        "operation": "compact",
        "phase": data["phase"],
        "sessionKey": session.key,
        "ts": event["ts"],
    }
    if data["phase"] == "end":
        payload["completed"] = data["completed"]
        if not data["completed"]:
            payload["reason"] = data["reason"]
    return payload


def _to_tool_event(event: Payload, session: SessionName) -> Payload:
    """Protocol 1's own event about a tool: the same facts, with a status of its own."""
    data = dict(event["data"])
    phase = data.pop("phase")
    status = {"waiting": "update", "decided": "update"}.get(phase, phase)
    if phase == "result" and data.get("isError"):
        status = "error"
    return {
        "runId": event["runId"],
        "sessionKey": session.key,
        "toolCallId": data.pop("toolCallId", ""),
        "name": data.pop("name", ""),
        "status": status,
        "ts": event["ts"],
        **data,
    }


def to_chat_outgoing(payload: Payload, session: SessionName) -> OutgoingEvent:
    payload = {**payload, "sessionKey": session.key, "sessionId": session.id}
    return OutgoingEvent("chat", payload, payload, droppable=payload["state"] == "delta")


def to_injected_outgoing(event: Payload, session: SessionName) -> list[OutgoingEvent]:
    """Words put into a transcript without a run are shown as an answer that is final at once."""
    data = event["data"]
    if data.get("change") != "injected" or not data.get("message"):
        return []
    message = data["message"]
    run_id = f"inject-{message.get('messageId', event['cursor'])}"
    return [to_chat_outgoing({"runId": run_id, "seq": 0, "state": "final", "message": message, "stopReason": "injected"}, session)]


def to_replayed_payload(event: Payload, session: SessionName, dialect: Dialect) -> Payload:
    """An event of the log in an answer instead of a frame of its own: without a connection's seq."""
    first = to_outgoing(event, session)[0]
    frame: Payload = {"type": "event", "event": first.event}
    if dialect == "classic":
        frame["stateVersion"] = first.classic_version
    frame["payload"] = first.classic if dialect == "classic" else first.modern
    return frame
