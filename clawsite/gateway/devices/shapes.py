"""Devices and their requests as clients and events tell them. Secrets and digests are never among it."""

from typing import Any, NotRequired, cast
from uuid import UUID

from typing_extensions import TypedDict

from clawsite.gateway.models import Device, DeviceToken, PairingRequest
from clawsite.gateway.protocol.device_events import NodePairRequested, NodePairResolved, PairRequested, PairResolved
from clawsite.gateway.protocol.event_frames import OutgoingEvent
from clawsite.infra import clock


class TokenFacts(TypedDict):
    """`issuedAtMs` is missing while the token waits for its device to fetch it."""

    role: str
    scopes: list[str]
    createdAtMs: int
    issuedAtMs: NotRequired[int]
    lastUsedAtMs: NotRequired[int]


class DeviceFacts(TypedDict):
    """A device that is paired. `approvedBy` is null where its owner's own credential was enough."""

    deviceId: str
    publicKey: str
    owner: str
    role: str
    roles: list[str]
    scopes: list[str]
    tokens: list[TokenFacts]
    createdAtMs: int
    approvedAtMs: int
    approvedBy: str | None
    displayName: NotRequired[str]
    platform: NotRequired[str]
    deviceFamily: NotRequired[str]
    modelIdentifier: NotRequired[str]
    clientId: NotRequired[str]
    version: NotRequired[str]
    remoteIp: NotRequired[str]
    lastSeenAtMs: NotRequired[int]
    commands: NotRequired[list[str]]  # that a node declares
    allowedCommands: NotRequired[list[str]]  # that it may be sent


def to_pair_requested(request: PairingRequest) -> PairRequested:
    told: dict[str, Any] = {
        **request.facts,
        "requestId": str(request.pk),
        "deviceId": request.fingerprint,
        "publicKey": request.public_key,
        "role": request.role,
        "roles": [request.role],
        "scopes": request.scopes,
        "reason": request.reason,
        "account": request.account.get_username() if request.account else None,
        "isRepair": request.reason != PairingRequest.Reason.NOT_PAIRED,
        "ts": clock.to_ms(request.created_at),
        "expiresAtMs": clock.to_ms(request.expires_at),
    }
    if request.address:
        told["remoteIp"] = request.address
    return cast(PairRequested, told)


def to_device_facts(device: Device, tokens: list[DeviceToken]) -> DeviceFacts:
    told: dict[str, Any] = {
        "displayName": device.display_name,
        "platform": device.platform,
        "deviceFamily": device.device_family,
        "modelIdentifier": device.model_identifier,
        "clientId": device.client_id,
        "version": device.client_version,
        "remoteIp": device.last_address,
        "lastSeenAtMs": clock.to_ms(device.last_seen_at) if device.last_seen_at else 0,
    }
    told = {name: value for name, value in told.items() if value}
    if device.is_node:
        told |= {"commands": device.declared.get("commands", []), "allowedCommands": device.allowed_commands}
    facts = DeviceFacts(
        deviceId=device.fingerprint,
        publicKey=device.public_key,
        owner=device.owner.get_username(),
        role=(device.roles or ["operator"])[0],
        roles=device.roles,
        scopes=device.scopes,
        tokens=[to_token_facts(token) for token in tokens],
        createdAtMs=clock.to_ms(device.paired_at),
        approvedAtMs=clock.to_ms(device.paired_at),
        approvedBy=device.approved_by.get_username() if device.approved_by else None,
    )
    return cast(DeviceFacts, {**facts, **told})


def to_token_facts(token: DeviceToken) -> TokenFacts:
    told = TokenFacts(role=token.role, scopes=token.scopes, createdAtMs=clock.to_ms(token.created_at))
    if token.issued_at:
        told["issuedAtMs"] = clock.to_ms(token.issued_at)
    if token.last_used_at:
        told["lastUsedAtMs"] = clock.to_ms(token.last_used_at)
    return told


def build_pairing_events(request_id: str, change: str) -> tuple[int | None, list[OutgoingEvent]] | None:
    """Whose credential came with a request, and what is told about it; None when it is gone."""
    request = PairingRequest.objects.select_related("account").filter(pk=UUID(request_id)).first()
    if request is None:
        return None
    is_node = request.role == "node"
    if change == "requested":
        asked = to_pair_requested(request)
        told = [OutgoingEvent("device.pair.requested", {**asked}, {**asked})]
        if is_node:
            of_node = NodePairRequested(**asked, nodeId=request.fingerprint)
            told.append(OutgoingEvent("node.pair.requested", {**of_node}, {**of_node}))
        return request.account_id, told
    decision: Any = request.status
    decided = PairResolved(requestId=request_id, deviceId=request.fingerprint, decision=decision, ts=clock.now_ms())
    told = [OutgoingEvent("device.pair.resolved", {**decided}, {**decided})]
    if is_node:
        node_decided = NodePairResolved(**decided, nodeId=request.fingerprint)
        told.append(OutgoingEvent("node.pair.resolved", {**node_decided}, {**node_decided}))
    return request.account_id, told
