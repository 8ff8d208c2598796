"""Nodes in responses, and parameters that identify a node."""

from typing import Annotated, Any, NotRequired, cast

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.gateway.devices.selectors import find_device
from clawsite.gateway.models import Device
from clawsite.gateway.protocol.params import Params
from clawsite.infra.errors import NotFound

NodeId = Annotated[str, Field(min_length=1, max_length=64)]


class ByNode(Params):
    """`nodeId` is the node's device ID; `owner` selects the account if several have paired the same device."""

    node_id: NodeId
    owner: Annotated[str, Field(min_length=1, max_length=150)] | None = None


class NodeFacts(TypedDict):
    """A node. `commands` are declared and allowed; `otherCommands` are declared but not allowed."""

    nodeId: str
    owner: str
    caps: list[str]
    commands: list[str]
    otherCommands: list[str]
    paired: bool
    connected: bool
    displayName: NotRequired[str]
    platform: NotRequired[str]
    version: NotRequired[str]
    deviceFamily: NotRequired[str]
    modelIdentifier: NotRequired[str]
    remoteIp: NotRequired[str]
    permissions: NotRequired[dict[str, bool]]
    pathEnv: NotRequired[str]
    connectedAtMs: NotRequired[int]


def find_managed_node(user: User, node_id: str, owner: str | None = None) -> Device:
    """Find a node to rename it or change its allowed commands: the user's own, or any with the permission to manage all."""
    try:
        node = find_device(user, node_id, owner)
    except NotFound:
        node = None
    if node is None or not node.is_node:
        raise NotFound(_("Node not found: %(node)s") % {"node": node_id[:64]})
    return node


def find_own_node(user: User, node_id: str, owner: str | None = None) -> Device:
    """Find one of the user's own nodes to invoke or describe. Managing all devices only covers pairing and removing them."""
    node = _own_nodes(user).filter(fingerprint=node_id).first()
    if node is None or owner not in (None, node.owner.username):
        raise NotFound(_("Node not found: %(node)s") % {"node": node_id[:64]})
    return node


def list_own_nodes(user: User) -> list[Device]:
    return list(_own_nodes(user).order_by("-paired_at")[:500])


def _own_nodes(user: User) -> QuerySet[Device]:
    return Device.objects.filter(owner=user, is_node=True).active().select_related("owner")


def to_node_facts(node: Device, online_since: int | None) -> NodeFacts:
    declared = node.declared.get("commands", [])
    optional: dict[str, Any] = {
        "displayName": node.display_name,
        "platform": node.platform,
        "version": node.client_version,
        "deviceFamily": node.device_family,
        "modelIdentifier": node.model_identifier,
        "remoteIp": node.last_address,
        "permissions": node.declared.get("permissions"),
        "pathEnv": node.declared.get("pathEnv"),
        "connectedAtMs": online_since,
    }
    facts = NodeFacts(
        nodeId=node.fingerprint,
        owner=node.owner.get_username(),
        caps=node.declared.get("caps", []),
        commands=[command for command in declared if command in node.allowed_commands],
        otherCommands=[command for command in declared if command not in node.allowed_commands],
        paired=True,
        connected=online_since is not None,
    )
    return cast(NodeFacts, {**facts, **{name: value for name, value in optional.items() if value}})
