"""Methods for nodes: list them, invoke a command, and receive results and events from nodes."""

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
from clawsite.gateway.nodes.messages import NodeEventReported
from clawsite.gateway.nodes.results import NodeResult
from clawsite.gateway.protocol.events.devices import NodeEvent
from clawsite.gateway.protocol.frames import Command
from clawsite.gateway.protocol.params import IdempotencyKey, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, Nothing, method
from clawsite.infra import bus, clock, db
from clawsite.infra.audit import actor as acting
from clawsite.infra.errors import InvalidRequest, Unavailable

MAX_PARAMS_BYTES = 1 << 20  # bytes of JSON
MAX_EVENT_BYTES = 64 << 10  # the limit of the bus


class NodeList(TypedDict):
    ts: int
    nodes: list[NodeFacts]


@method("node.list", scope=Scope.READ)
async def list_nodes(call: Call, params: Nothing) -> NodeList:
    """List your nodes. node.pair.list also has those of others, for users who may manage them."""
    nodes = await db.read(list_own_nodes, call.user)
    return NodeList(ts=clock.now_ms(), nodes=[_to_wire(call, node) for node in nodes])


@method("node.describe", scope=Scope.READ)
async def describe(call: Call, params: ByNode) -> NodeFacts:
    """Return one of your nodes."""
    return _to_wire(call, await db.read(find_own_node, call.user, params.node_id, params.owner))


def _to_wire(call: Call, node: Device) -> NodeFacts:
    return to_node_facts(node, call.runtime.presence.online_since(node_key(node.pk)))


class InvokeParams(ByNode):
    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("sessionKey", "turnSourceAccountId", "turnSourceChannel", "turnSourceThreadId", "turnSourceTo"),
        "a command is run for the caller and belongs to no session",
    )

    command: Command
    params: Any = None
    timeout_ms: int = Field(30_000, ge=100, le=600_000)
    idempotency_key: IdempotencyKey


class InvokeAnswer(NodeResult):
    """`payloadJSON` is the node's result as sent, `payload` the same as parsed JSON. If both don't fit, `payloadJSON` is null."""

    ok: Literal[True]
    nodeId: str
    command: str


@method("node.invoke", scope=Scope.WRITE, limited=LimitedTokenRule.REFUSED)
async def invoke(call: Call, params: InvokeParams) -> InvokeAnswer:
    """Invoke a command that a node declares and that is allowed. The response is sent when the node has responded.

    The command is sent at most once: a repeated `idempotencyKey` returns the result of the first request. A failure is
    UNAVAILABLE with `details.nodeError {code, message}`: NOT_CONNECTED (nothing was stored), TIMEOUT, UNAVAILABLE,
    RESULT_TOO_LARGE, or a code from the node.
    """
    text = None if params.params is None else orjson.dumps(params.params).decode()
    if text is not None and len(text.encode()) > MAX_PARAMS_BYTES:
        raise InvalidRequest(f"params exceed {MAX_PARAMS_BYTES} bytes")
    request = InvocationRequest(params.command, text, params.timeout_ms, params.idempotency_key)
    node, invocation = await db.read(_find_invocation, call.user, params, request)
    if invocation is None:
        if call.runtime.presence.online_since(node_key(node.pk)) is None:
            raise _node_error(NOT_CONNECTED, "the node is not connected; retry when it is", retryable=True)
        invocation = await db.write(invocations.create_invocation, call.user, node, request)
    ended = await call.runtime.nodes.outcome(invocation)
    if ended.status != NodeInvocation.Status.DONE:
        raise _node_error(ended.error_code or UNAVAILABLE, ended.error_message)
    return InvokeAnswer(ok=True, nodeId=node.fingerprint, command=ended.command, **results.to_wire(ended.result_json))


def _find_invocation(user: User, params: InvokeParams, request: InvocationRequest) -> tuple[Device, NodeInvocation | None]:
    node = find_own_node(user, params.node_id, params.owner)
    existing = invocations.find_invocation(user, node, request)
    if existing is None:
        invocations.check_command(node, params.command)
    return node, existing


def _node_error(code: str, message: str, *, retryable: bool = False) -> Unavailable:
    message = message or "the node reported a failure"
    return Unavailable(message, details={"nodeError": {"code": code, "message": message}}, retryable=retryable)


class NodeFailure(Params):
    code: Annotated[str, Field(max_length=64)] | None = None
    message: Annotated[str, Field(max_length=4000)] | None = None


class ResultParams(Params):
    """`id` is that of the request. The result is in `payload`, or as text in `payloadJSON`."""

    id: Annotated[str, Field(min_length=1, max_length=64)]
    node_id: NodeId
    ok: bool
    payload: Any = None
    payload_json: str | None = Field(None, alias="payloadJSON")
    error: NodeFailure | None = None


class ResultAnswer(TypedDict):
    """`ignored` is true if the invocation has expired or already has a result."""

    ok: Literal[True]
    ignored: NotRequired[bool]


@method("node.invoke.result", scope=None, role="node")
async def invoke_result(call: Call, params: ResultParams) -> ResultAnswer:
    """Send the result of an invocation. One that is too large for a response is rejected, and the caller gets RESULT_TOO_LARGE."""
    _check_own_node_id(call, params.node_id)
    text = results.to_json_text(params.payload, params.payload_json)
    error, fits = None, results.fits_reply(text)
    if not params.ok:
        failure = params.error or NodeFailure()
        error = (failure.code or UNAVAILABLE, failure.message or "the node reported a failure")
    if not fits:
        text, error = (
            "",
            error or (results.RESULT_TOO_LARGE, f"the node ran the command, but {results.TOO_LARGE_MESSAGE}"),
        )
    ended = await db.write(
        invocations.end_invocation,
        params.id,
        device_pk=call.connection.device_pk,
        result_json=text,
        error=error,
        actor=acting.actor_for_user(call.user),
    )
    call.runtime.nodes.forget_invocation(params.id)
    if not fits:
        raise InvalidRequest(results.TOO_LARGE_MESSAGE)
    return ResultAnswer(ok=True) if ended else ResultAnswer(ok=True, ignored=True)


class EventParams(Params):
    event: Annotated[str, Field(min_length=1, max_length=200)]
    payload: Any = None
    payload_json: str | None = Field(None, alias="payloadJSON")


class EventAnswer(TypedDict):
    """`handled` means that it was passed on, whether or not the owner was connected."""

    ok: Literal[True]
    event: str
    handled: Literal[True]


@method("node.event", scope=None, role="node")
async def node_event(call: Call, params: EventParams) -> EventAnswer:
    """Report an event. It is sent to the owner's current connections and not stored."""
    text = results.to_json_text(params.payload, params.payload_json)
    if len(text.encode()) > MAX_EVENT_BYTES:
        raise InvalidRequest(f"the payload exceeds {MAX_EVENT_BYTES} bytes")
    event = NodeEvent(nodeId=call.connection.device_id, event=params.event, payload=results.parse_payload(text), ts=clock.now_ms())
    bus.publish(NodeEventReported(call.user.pk, {**event}))
    return EventAnswer(ok=True, event=params.event, handled=True)


def _check_own_node_id(call: Call, node_id: str) -> None:
    if node_id != call.connection.device_id:
        raise InvalidRequest("nodeId does not match this node")
