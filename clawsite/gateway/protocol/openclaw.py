"""What a chat is, in the words of OpenClaw's own clients, where these differ from ours. Pure: the same facts, another shape."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, cast

from typing_extensions import TypedDict

from clawsite.gateway.protocol.session_events import Message, SessionMessage

MAX_PENDING = 20  # that their clients take; `total` says how many there are


class InFlightRun(TypedDict):
    """The run that has the turn, and the answer that it is writing."""

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
    """Prompts that wait for their turn."""

    items: list[PendingInput]
    total: int


def to_in_flight_run(active: Mapping[str, Any]) -> InFlightRun:
    told = InFlightRun(runId=active["runId"], text=active["text"])
    if active["startedAt"]:
        told["startedAt"] = active["startedAt"]
    return told


def to_pending_inputs(queued: Sequence[Mapping[str, Any]]) -> PendingInputs:
    return PendingInputs(items=[_to_pending_input(prompt) for prompt in queued[:MAX_PENDING]], total=len(queued))


def _to_pending_input(prompt: Mapping[str, Any]) -> PendingInput:
    message = {"role": "user", "content": [{"type": "text", "text": prompt["text"]}], "timestamp": prompt["acceptedAt"]}
    run_id = prompt["runId"]
    return PendingInput(id=run_id, runId=run_id, message=message, acceptedAt=prompt["acceptedAt"], state="queued")


def add_identity(message: dict[str, Any]) -> dict[str, Any]:
    """The message with its identity where their clients look for it, so that none is shown twice."""
    identity = {"id": message["messageId"], "seq": message["position"]}
    if run_id := message.get("runId"):
        identity["runId"] = run_id
    return {**message, "__openclaw": identity}


def to_session_message(message: dict[str, Any], session: Mapping[str, Any]) -> SessionMessage:
    """A message of the transcript as the event `session.message` tells it; `session` is its row, with the runs at work."""
    told = SessionMessage(
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
        told["runId"] = run_id
    return told
