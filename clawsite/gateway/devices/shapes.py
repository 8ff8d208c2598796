"""Devices and pairing requests as sent in responses and events. Never includes secrets or digests."""

from typing import Any, NotRequired, cast
from uuid import UUID

from typing_extensions import TypedDict

from clawsite.gateway.models import Device, DeviceToken, PairingRequest
from clawsite.gateway.protocol.events.devices import NodePairRequested, NodePairResolved, PairRequested, PairResolved
from clawsite.gateway.protocol.events.frames import OutgoingEvent
from clawsite.infra import clock


class TokenFacts(TypedDict):
    """A device token. `issuedAtMs` is missing until the device has collected the token."""

    role: str
    scopes: list[str]
    createdAtMs: int
    issuedAtMs: NotRequired[int]
    lastUsedAtMs: NotRequired[int]


class DeviceFacts(TypedDict):
    """A paired device. `approvedBy` is null if its owner's own credentials were enough."""

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
    commands: NotRequired[list[str]]  # commands that a node declares
    allowedCommands: NotRequired[list[str]]  # commands that may be sent to it


def to_pair_requested(request: PairingRequest) -> PairRequested:
    fields: dict[str, Any] = {
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
        fields["remoteIp"] = request.address
    return cast(PairRequested, fields)


def to_device_facts(device: Device, tokens: list[DeviceToken]) -> DeviceFacts:
    optional: dict[str, Any] = {
        "displayName": device.display_name,
        "platform": device.platform,
        "deviceFamily": device.device_family,
        "modelIdentifier": device.model_identifier,
        "clientId": device.client_id,
        "version": device.client_version,
        "remoteIp": device.last_address,
        "lastSeenAtMs": clock.to_ms(device.last_seen_at) if device.last_seen_at else 0,
    }
    optional = {name: value for name, value in optional.items() if value}
    if device.is_node:
        optional |= {"commands": device.declared.get("commands", []), "allowedCommands": device.allowed_commands}
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
    return cast(DeviceFacts, {**facts, **optional})


def to_token_facts(token: DeviceToken) -> TokenFacts:
    facts = TokenFacts(role=token.role, scopes=token.scopes, createdAtMs=clock.to_ms(token.created_at))
    if token.issued_at:
        facts["issuedAtMs"] = clock.to_ms(token.issued_at)
    if token.last_used_at:
        facts["lastUsedAtMs"] = clock.to_ms(token.last_used_at)
    return facts


def build_pairing_events(request_id: str, change: str) -> tuple[int | None, list[OutgoingEvent]] | None:
    """Return the account of a pairing request and the events about it, or None if it no longer exists."""
    request = PairingRequest.objects.select_related("account").filter(pk=UUID(request_id)).first()
    if request is None:
        return None
    is_node = request.role == "node"
    if change == "requested":
        requested = to_pair_requested(request)
        events = [OutgoingEvent("device.pair.requested", {**requested}, {**requested})]
        if is_node:
            of_node = NodePairRequested(**requested, nodeId=request.fingerprint)
            events.append(OutgoingEvent("node.pair.requested", {**of_node}, {**of_node}))
        return request.account_id, events
    decision: Any = request.status
    decided = PairResolved(requestId=request_id, deviceId=request.fingerprint, decision=decision, ts=clock.now_ms())
    events = [OutgoingEvent("device.pair.resolved", {**decided}, {**decided})]
    if is_node:
        node_decided = NodePairResolved(**decided, nodeId=request.fingerprint)
        events.append(OutgoingEvent("node.pair.resolved", {**node_decided}, {**node_decided}))
    return request.account_id, events
