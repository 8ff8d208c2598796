"""Pairing of nodes: requests and devices with role node, their names, and their allowed commands."""

from typing import Annotated

from django.db import transaction
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.devices import pairing, tokens
from clawsite.gateway.devices.selectors import list_paired_devices, list_pending_requests
from clawsite.gateway.devices.shapes import DeviceFacts
from clawsite.gateway.methods.devices import ApproveAnswer, ApproveParams, ByRequest, RejectAnswer, approve_pairing, reject_pairing
from clawsite.gateway.methods.nodes.shapes import ByNode, find_managed_node
from clawsite.gateway.methods.recent_password import require_recent_password
from clawsite.gateway.protocol.events.devices import NodePairRequested
from clawsite.gateway.protocol.frames import Command
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, Nothing, method
from clawsite.infra import db
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log


class PairedNode(DeviceFacts):
    """A paired node. `nodeId` is its device ID: OpenClaw's clients ignore entries without one."""

    nodeId: str


class NodePairList(TypedDict):
    """Like the result of device.pair.list, for nodes."""

    pending: list[NodePairRequested]
    paired: list[PairedNode]


@method("node.pair.list", scope=Scope.PAIRING, limited=LimitedTokenRule.HARMLESS)
async def pair_list(call: Call, params: Nothing) -> NodePairList:
    """Like device.pair.list, for nodes."""
    return await db.read(_nodes_to_manage, call.user)


def _nodes_to_manage(user: User) -> NodePairList:
    return NodePairList(
        pending=[NodePairRequested(**row, nodeId=row["deviceId"]) for row in list_pending_requests(user, "node")],
        paired=[PairedNode(**row, nodeId=row["deviceId"]) for row in list_paired_devices(user, nodes_only=True)],
    )


@method("node.pair.approve", scope=Scope.PAIRING, limited=LimitedTokenRule.REFUSED)
async def pair_approve(call: Call, params: ApproveParams) -> ApproveAnswer:
    """Like device.pair.approve, for nodes."""
    return await approve_pairing(call, params, role="node")


@method("node.pair.reject", scope=Scope.PAIRING, limited=LimitedTokenRule.HARMLESS)
async def pair_reject(call: Call, params: ByRequest) -> RejectAnswer:
    """Like device.pair.reject, for nodes."""
    return await reject_pairing(call, params, role="node")


class RemoveAnswer(TypedDict):
    nodeId: str


@method("node.pair.remove", scope=Scope.PAIRING, limited=LimitedTokenRule.HARMLESS)
async def pair_remove(call: Call, params: ByNode) -> RemoveAnswer:
    """Like device.pair.remove, for nodes: a device that is also an operator stays one."""

    def remove() -> None:
        pairing.remove_node(find_managed_node(call.user, params.node_id, params.owner), by=call.user)

    await db.write(remove, alone=True)
    return RemoveAnswer(nodeId=params.node_id)


class RenameParams(ByNode):
    display_name: Annotated[str, Field(min_length=1, max_length=256)]


class RenameAnswer(TypedDict):
    nodeId: str
    displayName: str


@method("node.rename", scope=Scope.PAIRING, limited=LimitedTokenRule.REFUSED)
async def rename(call: Call, params: RenameParams) -> RenameAnswer:
    """Rename a node. From then on, the name that the node reports is ignored."""

    def save() -> RenameAnswer:
        node = find_managed_node(call.user, params.node_id, params.owner)
        pairing.rename(node, params.display_name, by=call.user)
        return RenameAnswer(nodeId=node.fingerprint, displayName=node.display_name)

    return await db.write(save, alone=True)


class AllowParams(ByNode):
    """`commands` replaces the list; each must be one that the node declares."""

    commands: list[Command] = Field(max_length=256)


class AllowAnswer(TypedDict):
    nodeId: str
    allowedCommands: list[str]


@method("node.allow", scope=Scope.PAIRING, limited=LimitedTokenRule.REFUSED)
async def allow(call: Call, params: AllowParams) -> AllowAnswer:
    """Set the commands that may be sent to a node, including those it has declared since it was paired."""
    await require_recent_password(call)

    @transaction.atomic
    def save() -> AllowAnswer:
        node = find_managed_node(call.user, params.node_id, params.owner)
        node.allowed_commands = pairing.choose_commands(node.declared.get("commands", []), params.commands)
        node.save(update_fields=["allowed_commands"])
        actor = acting.actor_for_user(call.user)
        audit_log.record(
            "node.allowed", actor=actor, subject=tokens.audit_subject(node), owner=node.owner_id, commands=node.allowed_commands
        )
        return AllowAnswer(nodeId=node.fingerprint, allowedCommands=node.allowed_commands)

    return await db.write(save, alone=True)
