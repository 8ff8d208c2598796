"""Authenticate a device: by its account's credential and its signature, by its device token, or by an approval.

The order is OpenClaw's. An operator's device that presents its account's credential is paired automatically. A node always
needs an approval, whatever its credential.
"""

from dataclasses import dataclass, replace
from typing import Any, NoReturn

from clawsite.accounts.groups import scopes_of
from clawsite.accounts.sign_in import throttle
from clawsite.accounts.sign_in.recent_password import is_cookie_recent
from clawsite.accounts.tokens import LAST_USED_UPDATE_INTERVAL
from clawsite.gateway.auth.accounts import (
    AuthenticatedClient,
    HandshakeInfo,
    authenticate_credential,
    load_sessions,
    read_secret,
    to_throttled_error,
)
from clawsite.gateway.auth.authority import AccountAccess, Credential, Role
from clawsite.gateway.auth.refusals import reject_device, reject_unauthorized, reject_unpaired
from clawsite.gateway.devices import connecting, tokens
from clawsite.gateway.devices.connecting import DeviceCandidate
from clawsite.gateway.devices.identity import ConnectContext, InvalidDeviceProof, Proof, SignedFields, verify_proof
from clawsite.gateway.models import Device, DeviceToken, PairingRequest
from clawsite.gateway.protocol.frames import ConnectParams, DeviceProof
from clawsite.gateway.protocol.scopes import expand_scopes
from clawsite.infra import clock, db
from clawsite.infra.errors import Unavailable

Reason = PairingRequest.Reason
PAIRING_HINT = "a user who may pair devices must approve it on the account page, in the admin, or with device.pair.approve"


async def authenticate_device(params: ConnectParams, protocol: int, handshake: HandshakeInfo, nonce: str) -> AuthenticatedClient:
    """Reject the device unless its signature is valid and an account has paired it or pairs it now."""
    if params.device is None:
        raise reject_unpaired("device identity required", "DEVICE_IDENTITY_REQUIRED")
    client = await authenticate_credential(params, handshake)
    candidate = _verify_candidate(params, params.device, protocol, handshake, nonce)
    secret = read_secret(params)
    try:
        if client is not None:
            stale = (params.auth.device_token or "") if params.auth else ""
            return await _authenticate_with_account(client, candidate, stale)
        return await (_authenticate_with_token(secret, candidate) if secret else _authenticate_unpaired(candidate))
    except Unavailable as error:
        raise to_throttled_error(error) from error


def _verify_candidate(
    params: ConnectParams, device: DeviceProof, protocol: int, handshake: HandshakeInfo, nonce: str
) -> DeviceCandidate:
    info, auth = params.client, params.auth
    proof = Proof(device.id, device.public_key, device.signature, device.signed_at, device.nonce)
    token = (auth.token or auth.device_token or auth.bootstrap_token or "") if auth else ""
    family = info.device_family or ""
    signed = SignedFields(info.id, info.mode, params.role, tuple(params.scopes), token, info.platform, family)
    try:
        verify_proof(proof, signed, ConnectContext(protocol, nonce, clock.now_ms(), handshake.local))
    except InvalidDeviceProof as error:
        raise reject_device(error.message, error.code) from error
    wanted = expand_scopes(params.scopes)
    return DeviceCandidate(device.id, device.public_key, params.role, wanted, handshake.address, _read_facts(params))


def _read_facts(params: ConnectParams) -> dict[str, Any]:
    """Collect what a device reports about itself, by wire name; for a node also its commands and capabilities."""
    client = params.client
    facts: dict[str, Any] = {
        "displayName": client.display_name,
        "platform": client.platform,
        "deviceFamily": client.device_family,
        "modelIdentifier": client.model_identifier,
        "clientId": client.id,
        "clientMode": client.mode,
        "version": client.version,
    }
    if params.role == "node":
        facts |= {"permissions": params.permissions, "pathEnv": params.path_env}
        facts = {name: value for name, value in facts.items() if value}
        return facts | {"commands": list(dict.fromkeys(params.commands)), "caps": sorted(set(params.caps))}
    return {name: value for name, value in facts.items() if value}


# With an account's credential


async def _authenticate_with_account(client: AuthenticatedClient, candidate: DeviceCandidate, stale: str) -> AuthenticatedClient:
    if client.credential.kind == "cookie" and not await db.read(is_cookie_recent, client.credential.cookie):
        return await _without_pairing(client, candidate)
    if client.credential.kind == "gateway-token" and candidate.role == "operator":
        return client  # not paired, because replacing the gateway token must end all access granted through it
    device, token = await db.read(_find_device, client.access.user.pk, candidate, stale)
    paired = device is not None and device.revoked_at is None
    if candidate.role == "node":
        if device is None or not paired or not device.is_node:
            await _request_pairing(candidate, client, device, Reason.ROLE if paired else Reason.NOT_PAIRED)
        return await _admit_node(client, candidate, device, token)
    if device is not None and not paired:
        await _request_pairing(candidate, client, None, Reason.NOT_PAIRED)
    held, secret = client.access.scopes, None
    wanted = held if candidate.requested_scopes is None else candidate.requested_scopes & held
    has_token = token is not None and bool(token.digest)
    if device is None or not has_token or not device.is_operator or not wanted <= set(device.scopes):
        reissue = bool(stale) and token is None
        registered: tuple[Device, str | None] | None = await db.write(
            connecting.register_device,
            candidate,
            client.access.user,
            held,
            access_token=client.credential.token_id if client.credential.kind == "api-token" else None,
            reissue=reissue,
            key=f"device {candidate.fingerprint}",
        )
        if registered is None:  # revoked since it was read
            await _request_pairing(candidate, client, None, Reason.NOT_PAIRED)
        device, secret = registered
    return replace(
        client,
        credential=replace(client.credential, device=device.pk),
        use_unrecorded=client.use_unrecorded or _needs_use_record(device),
        fingerprint=candidate.fingerprint,
        device_token=secret,
    )


async def _without_pairing(client: AuthenticatedClient, candidate: DeviceCandidate) -> AuthenticatedClient:
    """Admit a browser whose last password check is too old, without pairing it."""
    if candidate.role == "node":
        await _request_pairing(candidate, client, None, Reason.NOT_PAIRED)
    return client


def _find_device(user_pk: int, candidate: DeviceCandidate, stale: str) -> tuple[Device | None, DeviceToken | None]:
    """Return the account's row for the device, and its token; no token if the one it sent is no longer valid."""
    device = Device.objects.filter(owner_id=user_pk, fingerprint=candidate.fingerprint).first()
    token = tokens.find_active_token(device, candidate.role) if device else None
    if stale and tokens.find_token(stale, candidate.fingerprint) is None:
        token = None
    return device, token


def _needs_use_record(device: Device) -> bool:
    return device.last_seen_at is None or device.last_seen_at < clock.now() - LAST_USED_UPDATE_INTERVAL


# With its device token


@dataclass(frozen=True, slots=True)
class _TokenMatch:
    token: DeviceToken
    client: AuthenticatedClient
    of_account: frozenset[str]  # what its owner's account could grant


async def _authenticate_with_token(secret: str, candidate: DeviceCandidate) -> AuthenticatedClient:
    match = await db.read(_find_token, secret, candidate)
    if match is None:
        await db.write(throttle.record_failure, candidate.address)
        message = "the device token is invalid, revoked or for another device; pair the device again or use another token"
        raise reject_unauthorized(
            message, "AUTH_DEVICE_TOKEN_MISMATCH", canRetryWithDeviceToken=False, recommendedNextStep="update_auth_credentials"
        )
    device = match.token.device
    if match.token.role != candidate.role:
        await _request_pairing(candidate, match.client, device, Reason.ROLE)
    if candidate.role == "node":
        return await _admit_node(match.client, candidate, device, match.token)
    # Scopes it requested before were already decided on; only new scopes that its owner could grant need an approval.
    new = (candidate.requested_scopes or frozenset()) - set(device.asked_scopes) - set(match.token.scopes)
    if new & match.of_account:
        await _request_pairing(candidate, match.client, device, Reason.SCOPES)
    return match.client


def _find_token(secret: str, candidate: DeviceCandidate) -> _TokenMatch | None:
    throttle.check(candidate.address)
    token = tokens.find_token(secret, candidate.fingerprint)
    return _TokenMatch(token, _client_from_token(token, candidate), scopes_of(token.device.owner)) if token else None


def _client_from_token(token: DeviceToken, candidate: DeviceCandidate) -> AuthenticatedClient:
    device = token.device
    role: Role = "node" if candidate.role == "node" else "operator"
    credential = Credential("device-token", token_id=token.pk, device=device.pk, role=role)
    access = AccountAccess.for_user(token.limited_account(), token.ceiling())
    client = AuthenticatedClient(credential, access, use_unrecorded=_needs_use_record(device), fingerprint=candidate.fingerprint)
    return load_sessions(client) if role == "operator" else client


# With only its signature


async def _authenticate_unpaired(candidate: DeviceCandidate) -> AuthenticatedClient:
    """Collect the token that an approval prepared, or request pairing if there is none."""
    if await db.read(_has_prepared_token, candidate):
        collected = await db.write(connecting.collect_token, candidate, key=f"device {candidate.fingerprint}")
        if collected:
            token, secret = collected
            client = await db.read(_client_from_token, token, candidate)
            return replace(client, device_token=secret)
    return await _request_pairing(candidate, None, None, Reason.NOT_PAIRED)


def _has_prepared_token(candidate: DeviceCandidate) -> bool:
    throttle.check(candidate.address)
    return connecting.find_prepared_tokens(candidate).exists()


async def _admit_node(
    client: AuthenticatedClient, candidate: DeviceCandidate, device: Device, token: DeviceToken | None
) -> AuthenticatedClient:
    """Admit an approved node: issue a token if it has none and store what it declares."""
    secret = None
    if token is None or not token.digest or device.declared != connecting.select_declared(candidate.facts):
        connected: tuple[Device, str | None] | None = await db.write(
            connecting.record_node_connected, device.pk, candidate, key=f"device {candidate.fingerprint}"
        )
        if connected is None:  # revoked since it was read
            await _request_pairing(candidate, client, None, Reason.NOT_PAIRED)
        device, secret = connected
    credential = replace(client.credential, device=device.pk, role="node")
    access = replace(client.access, scopes=frozenset())
    return AuthenticatedClient(
        credential, access, use_unrecorded=_needs_use_record(device), fingerprint=candidate.fingerprint, device_token=secret
    )


async def _request_pairing(
    candidate: DeviceCandidate, client: AuthenticatedClient | None, device: Device | None, reason: Reason
) -> NoReturn:
    """Store the pairing request and reject the handshake. Only clients with the account's credential see existing approvals."""
    account = client.access.user if client else None
    request = await db.write(
        connecting.create_pairing_request, candidate, account, reason.value, key=f"device {candidate.fingerprint}"
    )
    details: dict[str, Any] = {
        "reason": reason.value,
        "requestId": str(request.pk),
        "deviceId": candidate.fingerprint,
        "requestedRole": candidate.role,
        "requestedScopes": request.scopes,
        "remediationHint": PAIRING_HINT,
    }
    if device is not None and device.revoked_at is None:
        details |= {"approvedRoles": device.roles, "approvedScopes": device.scopes}
    raise reject_unpaired("pairing required", "PAIRING_REQUIRED", **details)
