"""Telling one's nodes something, all at once. They are not asked, and nobody waits for them."""

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
from clawsite.gateway.protocol.device_events import NodeBroadcast
from clawsite.gateway.protocol.params import IdempotencyKey, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, method
from clawsite.infra import bus, clock, db
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.errors import InvalidRequest


class BroadcastParams(Params):
    """`nodeIds` are some of your nodes instead of all. Nothing is stored: the same `idempotencyKey` again is told again."""

    event: Annotated[str, Field(min_length=1, max_length=200)]
    payload: Any = None
    payload_json: str | None = Field(None, alias="payloadJSON")
    node_ids: list[NodeId] | None = Field(None, max_length=500)
    idempotency_key: IdempotencyKey | None = None


class BroadcastAnswer(TypedDict):
    """`nodeIds` are those that are connected and were told."""

    ok: Literal[True]
    nodeIds: list[str]


@method("node.broadcast", scope=Scope.WRITE, limited=LimitedTokenRule.REFUSED)
async def broadcast(call: Call, params: BroadcastParams) -> BroadcastAnswer:
    """Tell your nodes that are connected, wherever they are. It is not kept for the others, and no node answers."""
    text = results.to_json_text(params.payload, params.payload_json)
    if len(text.encode()) > MAX_EVENT_BYTES:
        raise InvalidRequest(f"the payload is too large; {MAX_EVENT_BYTES} bytes are possible here")
    nodes = await db.read(_find_nodes, call.user, params.node_ids)
    there = [node for node in nodes if call.runtime.presence.online_since(node_key(node.pk)) is not None]
    told = NodeBroadcast(event=params.event, ts=clock.now_ms())
    if text:
        told["payloadJSON"] = text
    if params.idempotency_key:
        told["idempotencyKey"] = params.idempotency_key
    if there:
        await db.write(_publish, call.user, there, told)
    return BroadcastAnswer(ok=True, nodeIds=[node.fingerprint for node in there])


def _find_nodes(user: User, node_ids: list[str] | None) -> list[Device]:
    if node_ids is None:
        return list_own_nodes(user)
    return [find_own_node(user, node_id) for node_id in dict.fromkeys(node_ids)]


@transaction.atomic
def _publish(user: User, nodes: list[Device], told: NodeBroadcast) -> None:
    for node in nodes:
        audit_log.record(
            "node.told", actor=acting.actor_for_user(user), subject=audit_subject(node), owner=node.owner_id, event=told["event"]
        )
    message = {"k": "node-broadcast", "devices": [node.pk for node in nodes], "event": {**told}}
    transaction.on_commit(lambda: bus.publish(message))
