"""Convert chat data to the form of OpenClaw's clients where it differs. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from clawsite.gateway.protocol.events.sessions import Message, SessionMessage

MAX_PENDING = 20  # as many as OpenClaw's clients accept; `total` is the full count


class InFlightRun(TypedDict):
    """The current run and its answer so far."""

    runId: str
    text: str
    startedAt: NotRequired[int]


class PendingInput(TypedDict):
    id: str
    runId: str
    message: dict[str, Any]
    acceptedAt: int
    state: Literal["queued"]


class PendingInputs(TypedDict):
    """Queued prompts."""

    items: list[PendingInput]
    total: int


def to_in_flight_run(active: Mapping[str, Any]) -> InFlightRun:
    run = InFlightRun(runId=active["runId"], text=active["text"])
    if active["startedAt"]:
        run["startedAt"] = active["startedAt"]
    return run


def to_pending_inputs(queued: Sequence[Mapping[str, Any]]) -> PendingInputs:
    return PendingInputs(items=[_to_pending_input(prompt) for prompt in queued[:MAX_PENDING]], total=len(queued))


def _to_pending_input(prompt: Mapping[str, Any]) -> PendingInput:
    message = {"role": "user", "content": [{"type": "text", "text": prompt["text"]}], "timestamp": prompt["acceptedAt"]}
    run_id = prompt["runId"]
    return PendingInput(id=run_id, runId=run_id, message=message, acceptedAt=prompt["acceptedAt"], state="queued")


def add_identity(message: dict[str, Any]) -> dict[str, Any]:
    """Add the message's identity where OpenClaw's clients expect it, so that no message is shown twice."""
    identity = {"id": message["messageId"], "seq": message["position"]}
    if run_id := message.get("runId"):
        identity["runId"] = run_id
    return {**message, "__openclaw": identity}


def to_session_message(message: dict[str, Any], session: Mapping[str, Any]) -> SessionMessage:
    """Build the payload of `session.message`; `session` is the session's row with its active runs."""
    payload = SessionMessage(
        sessionKey=session["key"],
        sessionId=session["sessionId"],
        agentId=session["agentId"],
        updatedAt=session["updatedAt"],
        hasActiveRun=bool(session["activeRunIds"]),
        activeRunIds=session["activeRunIds"],
        message=cast("Message", add_identity(message)),
        messageId=message["messageId"],
        messageSeq=message["position"],
    )
    if run_id := message.get("runId"):
        payload["runId"] = run_id
    return payload
