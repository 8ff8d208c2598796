"""Convert committed log events to frames: one event becomes one or two frames, in one or both dialects. Pure."""

from dataclasses import dataclass, field, replace
from typing import Any

from clawsite.gateway.protocol.frames import Dialect, EncodedEvent, encode_event

Payload = dict[str, Any]

TOOL_EVENTS = "tool-events"  # the capability that clients of protocols 3 and 4 declare to get tool events


@dataclass(frozen=True, slots=True)
class SessionName:
    """How the owner's clients identify a session. Other users' clients use `make_shared_key`."""

    id: str
    key: str


@dataclass(slots=True)
class OutgoingEvent:
    """An event for many connections, encoded at most once per dialect. It is not sent to a dialect without a payload."""

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
        """Return the same event with another session key, for users other than the owner."""
        modern, classic = ({**payload, "sessionKey": key} if payload else None for payload in (self.modern, self.classic))
        return replace(self, modern=modern, classic=classic, _encoded={})


def to_outgoing(event: Payload, session: SessionName) -> list[OutgoingEvent]:
    """Convert a log event. Events of a run become `agent` events; those without a run become `session` events."""
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
        classic = {**payload, "delta": event["data"]["delta"]}  # where protocol 1 clients expect it
    about_tools = event["stream"] in ("tool", "toolcall")
    outgoing = [OutgoingEvent("agent", payload, classic, classic_version=event["cursor"], needs=TOOL_EVENTS if about_tools else "")]
    if event["stream"] == "tool":
        outgoing.append(OutgoingEvent("tool", None, _to_tool_event(event, session), classic_version=event["cursor"]))
    if event["stream"] == "compaction":
        operation = _to_operation(event, session)
        outgoing.append(OutgoingEvent("session.operation", operation, operation, classic_version=event["cursor"]))
    return outgoing


def _to_operation(event: Payload, session: SessionName) -> Payload:
    """Build OpenClaw's event for an operation on a whole session. Its ID is the run's."""
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
    """Build protocol 1's tool event: the same data, with a `status`."""
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
    """Convert a message injected into a transcript without a run to a final answer."""
    data = event["data"]
    if data.get("change") != "injected" or not data.get("message"):
        return []
    message = data["message"]
    run_id = f"inject-{message.get('messageId', event['cursor'])}"
    return [to_chat_outgoing({"runId": run_id, "seq": 0, "state": "final", "message": message, "stopReason": "injected"}, session)]


def to_replayed_payload(event: Payload, session: SessionName, dialect: Dialect) -> Payload:
    """Convert a log event to be included in a response instead of a separate frame: without the connection's seq."""
    first = to_outgoing(event, session)[0]
    frame: Payload = {"type": "event", "event": first.event}
    if dialect == "classic":
        frame["stateVersion"] = first.classic_version
    frame["payload"] = first.classic if dialect == "classic" else first.modern
    return frame
