"""Nodes over the socket: which there are, asking one to do something, and what nodes answer and report."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NotRequired

import orjson
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.delivery.presence import node_key
from clawsite.gateway.methods.nodes.shapes import ByNode, NodeFacts, NodeId, find_own_node, list_own_nodes, to_node_facts
from clawsite.gateway.models import Device, NodeInvocation
from clawsite.gateway.nodes import invocations, results
from clawsite.gateway.nodes.invocations import NOT_CONNECTED, UNAVAILABLE, InvocationRequest
from clawsite.gateway.nodes.results import NodeResult
from clawsite.gateway.protocol.device_events import NodeEvent
from clawsite.gateway.protocol.frames import Command
from clawsite.gateway.protocol.params import IdempotencyKey, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, Nothing, method
from clawsite.infra import bus, clock, db
from clawsite.infra.audit import actor as acting
from clawsite.infra.errors import InvalidRequest, Unavailable

MAX_PARAMS_BYTES = 1 << 20  # bytes of JSON
MAX_EVENT_BYTES = 64 << 10  # what the bus carries


class NodeList(TypedDict):
    ts: int
    nodes: list[NodeFacts]


@method("node.list", scope=Scope.READ)
async def list_nodes(call: Call, params: Nothing) -> NodeList:
    """Your nodes. Those of others are in node.pair.list, for who may manage them."""
    nodes = await db.read(list_own_nodes, call.user)
    return NodeList(ts=clock.now_ms(), nodes=[_to_wire(call, node) for node in nodes])


@method("node.describe", scope=Scope.READ)
async def describe(call: Call, params: ByNode) -> NodeFacts:
    """One of them."""
    return _to_wire(call, await db.read(find_own_node, call.user, params.node_id, params.owner))


def _to_wire(call: Call, node: Device) -> NodeFacts:
    return to_node_facts(node, call.runtime.presence.online_since(node_key(node.pk)))


class InvokeParams(ByNode):
    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("sessionKey", "turnSourceAccountId", "turnSourceChannel", "turnSourceThreadId", "turnSourceTo"),
        "a command is run for who asks for it, in no session",
    )

    command: Command
    params: Any = None
    timeout_ms: int = Field(30_000, ge=100, le=600_000)
    idempotency_key: IdempotencyKey


class InvokeAnswer(NodeResult):
    """`payloadJSON` is the node's answer as it sent it, `payload` the same read as JSON. One too long to be told twice is told as
    `payload` only, with null beside it."""

    ok: Literal[True]
    nodeId: str
    command: str


@method("node.invoke", scope=Scope.WRITE, limited=LimitedTokenRule.REFUSED)
async def invoke(call: Call, params: InvokeParams) -> InvokeAnswer:
    """Ask a node to do something that it declares and somebody has allowed. Answered when the node has answered.

    It is sent at most once, whatever happens: the same `idempotencyKey` again gets the outcome of the first. A failure is
    UNAVAILABLE with `details.nodeError {code, message}`: NOT_CONNECTED (nothing was stored), TIMEOUT, UNAVAILABLE,
    RESULT_TOO_LARGE, or a code of the node's own.
    """
    text = None if params.params is None else orjson.dumps(params.params).decode()
    if text is not None and len(text.encode()) > MAX_PARAMS_BYTES:
        raise InvalidRequest(f"the params of an invocation can have {MAX_PARAMS_BYTES} bytes")
    asked = InvocationRequest(params.command, text, params.timeout_ms, params.idempotency_key)
    node, invocation = await db.read(_find_invocation, call.user, params, asked)
    if invocation is None:
        if call.runtime.presence.online_since(node_key(node.pk)) is None:
            raise _node_error(NOT_CONNECTED, "the node is not connected; try again when it is", retryable=True)
        invocation = await db.write(invocations.create_invocation, call.user, node, asked)
    ended = await call.runtime.nodes.outcome(invocation)
    if ended.status != NodeInvocation.Status.DONE:
        raise _node_error(ended.error_code or UNAVAILABLE, ended.error_message)
    return InvokeAnswer(ok=True, nodeId=node.fingerprint, command=ended.command, **results.to_wire(ended.result_json))


def _find_invocation(user: User, params: InvokeParams, asked: InvocationRequest) -> tuple[Device, NodeInvocation | None]:
    node = find_own_node(user, params.node_id, params.owner)
    before = invocations.find_invocation(user, node, asked)
    if before is None:
        invocations.check_command(node, params.command)
    return node, before


def _node_error(code: str, message: str, *, retryable: bool = False) -> Unavailable:
    message = message or "the node reports a failure"
    return Unavailable(message, details={"nodeError": {"code": code, "message": message}}, retryable=retryable)


class NodeFailure(Params):
    code: Annotated[str, Field(max_length=64)] | None = None
    message: Annotated[str, Field(max_length=4000)] | None = None


class ResultParams(Params):
    """`id` is that of the request. The answer stands in `payload`, or as text in `payloadJSON`."""

    id: Annotated[str, Field(min_length=1, max_length=64)]
    node_id: NodeId
    ok: bool
    payload: Any = None
    payload_json: str | None = Field(None, alias="payloadJSON")
    error: NodeFailure | None = None


class ResultAnswer(TypedDict):
    """`ignored` says that nobody waits for it any more, or that it was answered before."""

    ok: Literal[True]
    ignored: NotRequired[bool]


@method("node.invoke.result", scope=None, role="node")
async def invoke_result(call: Call, params: ResultParams) -> ResultAnswer:
    """What came of an invocation. One that does not fit into an answer is refused, and who asked is told so: RESULT_TOO_LARGE."""
    _check_own_node_id(call, params.node_id)
    text = results.to_json_text(params.payload, params.payload_json)
    error, fits = None, results.fits_reply(text)
    if not params.ok:
        failure = params.error or NodeFailure()
        error = (failure.code or UNAVAILABLE, failure.message or "the node reports a failure")
    if not fits:
        text, error = (
            "",
            error or (results.RESULT_TOO_LARGE, f"the node has done what it was asked, but {results.TOO_LARGE_MESSAGE}"),
        )
    ended = await db.write(
        invocations.end_invocation,
        params.id,
        device_pk=call.connection.device_pk,
        result_json=text,
        error=error,
        actor=acting.actor_for_user(call.user),
    )
    call.runtime.nodes.answered(params.id)
    if not fits:
        raise InvalidRequest(results.TOO_LARGE_MESSAGE)
    return ResultAnswer(ok=True) if ended else ResultAnswer(ok=True, ignored=True)


class EventParams(Params):
    event: Annotated[str, Field(min_length=1, max_length=200)]
    payload: Any = None
    payload_json: str | None = Field(None, alias="payloadJSON")


class EventAnswer(TypedDict):
    """`handled` says that it was passed on, whether or not somebody was there to hear it."""

    ok: Literal[True]
    event: str
    handled: Literal[True]


@method("node.event", scope=None, role="node")
async def node_event(call: Call, params: EventParams) -> EventAnswer:
    """Report something. It is told to the owner's connections that are there, and not stored."""
    text = results.to_json_text(params.payload, params.payload_json)
    if len(text.encode()) > MAX_EVENT_BYTES:
        raise InvalidRequest(f"the payload is too large; {MAX_EVENT_BYTES} bytes are possible here")
    told = NodeEvent(nodeId=call.connection.device_id, event=params.event, payload=results.parse_payload(text), ts=clock.now_ms())
    bus.publish({"k": "node-event", "owner": call.user.pk, "event": {**told}})
    return EventAnswer(ok=True, event=params.event, handled=True)


def _check_own_node_id(call: Call, node_id: str) -> None:
    if node_id != call.connection.device_id:
        raise InvalidRequest("nodeId is not this node's; a node answers for itself only")
