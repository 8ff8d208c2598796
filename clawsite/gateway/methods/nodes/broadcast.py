"""Broadcast an event to the caller's connected nodes. No response is expected."""

from typing import Annotated, Any, Literal

from django.db import transaction
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.delivery.presence import node_key
from clawsite.gateway.devices.tokens import audit_subject
from clawsite.gateway.methods.nodes.invoke import MAX_EVENT_BYTES
from clawsite.gateway.methods.nodes.shapes import NodeId, find_own_node, list_own_nodes
from clawsite.gateway.models import Device
from clawsite.gateway.nodes import results
from clawsite.gateway.nodes.messages import NodeBroadcastSent
from clawsite.gateway.protocol.events.devices import NodeBroadcast
from clawsite.gateway.protocol.params import IdempotencyKey, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, method
from clawsite.infra import bus, clock, db
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.errors import InvalidRequest


class BroadcastParams(Params):
    """`nodeIds` limits it to some of your nodes. Nothing is stored: a repeated `idempotencyKey` is sent again."""

    event: Annotated[str, Field(min_length=1, max_length=200)]
    payload: Any = None
    payload_json: str | None = Field(None, alias="payloadJSON")
    node_ids: list[NodeId] | None = Field(None, max_length=500)
    idempotency_key: IdempotencyKey | None = None


class BroadcastAnswer(TypedDict):
    """`nodeIds` are the connected nodes that it was sent to."""

    ok: Literal[True]
    nodeIds: list[str]


@method("node.broadcast", scope=Scope.WRITE, limited=LimitedTokenRule.REFUSED)
async def broadcast(call: Call, params: BroadcastParams) -> BroadcastAnswer:
    """Send an event to your connected nodes. It is not stored for the others, and no response is expected."""
    text = results.to_json_text(params.payload, params.payload_json)
    if len(text.encode()) > MAX_EVENT_BYTES:
        raise InvalidRequest(f"the payload exceeds {MAX_EVENT_BYTES} bytes")
    nodes = await db.read(_find_nodes, call.user, params.node_ids)
    connected = [node for node in nodes if call.runtime.presence.online_since(node_key(node.pk)) is not None]
    broadcast_event = NodeBroadcast(event=params.event, ts=clock.now_ms())
    if text:
        broadcast_event["payloadJSON"] = text
    if params.idempotency_key:
        broadcast_event["idempotencyKey"] = params.idempotency_key
    if connected:
        await db.write(_publish, call.user, connected, broadcast_event)
    return BroadcastAnswer(ok=True, nodeIds=[node.fingerprint for node in connected])


def _find_nodes(user: User, node_ids: list[str] | None) -> list[Device]:
    if node_ids is None:
        return list_own_nodes(user)
    return [find_own_node(user, node_id) for node_id in dict.fromkeys(node_ids)]


@transaction.atomic
def _publish(user: User, nodes: list[Device], broadcast_event: NodeBroadcast) -> None:
    for node in nodes:
        audit_log.record(
            "node.told",
            actor=acting.actor_for_user(user),
            subject=audit_subject(node),
            owner=node.owner_id,
            event=broadcast_event["event"],
        )
    bus.publish_on_commit(NodeBroadcastSent([node.pk for node in nodes], {**broadcast_event}))
