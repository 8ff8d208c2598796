"""Whether a device may come in: its account's credential first, then its signature, its own token, or an approval.

The order is OpenClaw's. An operator's device is taken in on the word of its account, which has shown its credential; a node is let
in only after a person has approved it, whatever it brings.
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
PAIRING_HINT = "somebody who may pair devices approves it: on the account page, in the admin, or by device.pair.approve"


async def authenticate_device(params: ConnectParams, protocol: int, knock: HandshakeInfo, nonce: str) -> AuthenticatedClient:
    """Refused unless the device is who it says it is, and known to an account or taken in by one now."""
    if params.device is None:
        raise reject_unpaired("device identity required", "DEVICE_IDENTITY_REQUIRED")
    known = await authenticate_credential(params, knock)
    candidate = _verify_candidate(params, params.device, protocol, knock, nonce)
    secret = read_secret(params)
    try:
        if known is not None:
            stale = (params.auth.device_token or "") if params.auth else ""
            return await _authenticate_with_account(known, candidate, stale)
        return await (_authenticate_with_token(secret, candidate) if secret else _authenticate_unpaired(candidate))
    except Unavailable as error:
        raise to_throttled_error(error) from error


def _verify_candidate(
    params: ConnectParams, device: DeviceProof, protocol: int, knock: HandshakeInfo, nonce: str
) -> DeviceCandidate:
    client, auth = params.client, params.auth
    proof = Proof(device.id, device.public_key, device.signature, device.signed_at, device.nonce)
    token = (auth.token or auth.device_token or auth.bootstrap_token or "") if auth else ""
    family = client.device_family or ""
    signed = SignedFields(client.id, client.mode, params.role, tuple(params.scopes), token, client.platform, family)
    try:
        verify_proof(proof, signed, ConnectContext(protocol, nonce, clock.now_ms(), knock.local))
    except InvalidDeviceProof as bad:
        raise reject_device(bad.message, bad.code) from bad
    wanted = expand_scopes(params.scopes)
    return DeviceCandidate(device.id, device.public_key, params.role, wanted, knock.address, _read_facts(params))


def _read_facts(params: ConnectParams) -> dict[str, Any]:
    """What a device says of itself, by wire name; of a node also what it can do."""
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


async def _authenticate_with_account(known: AuthenticatedClient, candidate: DeviceCandidate, stale: str) -> AuthenticatedClient:
    if known.credential.kind == "cookie" and not await db.read(is_cookie_recent, known.credential.cookie):
        return await _without_pairing(known, candidate)
    if known.credential.kind == "gateway-token" and candidate.role == "operator":
        return known  # a new one in its place must end all that came with it
    device, token = await db.read(_find_device, known.standing.user.pk, candidate, stale)
    paired = device is not None and device.revoked_at is None
    if candidate.role == "node":
        if device is None or not paired or not device.is_node:
            await _request_pairing(candidate, known, device, Reason.ROLE if paired else Reason.NOT_PAIRED)
        return await _admit_node(known, candidate, device, token)
    if device is not None and not paired:
        await _request_pairing(candidate, known, None, Reason.NOT_PAIRED)
    held, secret = known.standing.scopes, None
    wanted = held if candidate.wanted is None else candidate.wanted & held
    has_token = token is not None and bool(token.digest)
    if device is None or not has_token or not device.is_operator or not wanted <= set(device.scopes):
        anew = bool(stale) and token is None
        welcomed: tuple[Device, str | None] | None = await db.write(
            connecting.register_device,
            candidate,
            known.standing.user,
            held,
            access_token=known.credential.token_id if known.credential.kind == "api-token" else None,
            anew=anew,
            key=f"device {candidate.fingerprint}",
        )
        if welcomed is None:  # revoked since it was looked at
            await _request_pairing(candidate, known, None, Reason.NOT_PAIRED)
        device, secret = welcomed
    return replace(
        known,
        credential=replace(known.credential, device=device.pk),
        unnoted=known.unnoted or _needs_use_record(device),
        fingerprint=candidate.fingerprint,
        device_token=secret,
    )


async def _without_pairing(known: AuthenticatedClient, candidate: DeviceCandidate) -> AuthenticatedClient:
    """A browser in which the password was typed long ago comes in as what it is, but takes nothing lasting with it."""
    if candidate.role == "node":
        await _request_pairing(candidate, known, None, Reason.NOT_PAIRED)
    return known


def _find_device(user_pk: int, candidate: DeviceCandidate, stale: str) -> tuple[Device | None, DeviceToken | None]:
    """The account's row of the device, and the token it has: none where the one it sent along is not good any more."""
    device = Device.objects.filter(owner_id=user_pk, fingerprint=candidate.fingerprint).first()
    token = tokens.find_active_token(device, candidate.role) if device else None
    if stale and tokens.find_token(stale, candidate.fingerprint) is None:
        token = None
    return device, token


def _needs_use_record(device: Device) -> bool:
    return device.last_seen_at is None or device.last_seen_at < clock.now() - LAST_USED_UPDATE_INTERVAL


# With its own token


@dataclass(frozen=True, slots=True)
class _TokenMatch:
    token: DeviceToken
    known: AuthenticatedClient
    of_account: frozenset[str]  # what its owner's account could give


async def _authenticate_with_token(secret: str, candidate: DeviceCandidate) -> AuthenticatedClient:
    found = await db.read(_find_token, secret, candidate)
    if found is None:
        await db.write(throttle.record_failure, candidate.address)
        words = "the device token is wrong, revoked, or another device's; pair the device again or connect with another token"
        raise reject_unauthorized(
            words, "AUTH_DEVICE_TOKEN_MISMATCH", canRetryWithDeviceToken=False, recommendedNextStep="update_auth_credentials"
        )
    device = found.token.device
    if found.token.role != candidate.role:
        await _request_pairing(candidate, found.known, device, Reason.ROLE)
    if candidate.role == "node":
        return await _admit_node(found.known, candidate, device, found.token)
    # What it asked for before was answered with what it has; only a wish that is new, and can be granted, is an upgrade.
    new = (candidate.wanted or frozenset()) - set(device.asked_scopes) - set(found.token.scopes)
    if new & found.of_account:
        await _request_pairing(candidate, found.known, device, Reason.SCOPES)
    return found.known


def _find_token(secret: str, candidate: DeviceCandidate) -> _TokenMatch | None:
    throttle.check(candidate.address)
    token = tokens.find_token(secret, candidate.fingerprint)
    return _TokenMatch(token, _client_from_token(token, candidate), scopes_of(token.device.owner)) if token else None


def _client_from_token(token: DeviceToken, candidate: DeviceCandidate) -> AuthenticatedClient:
    device = token.device
    role: Role = "node" if candidate.role == "node" else "operator"
    credential = Credential("device-token", token_id=token.pk, device=device.pk, role=role)
    standing = AccountAccess.of(token.limited_account(), token.ceiling())
    known = AuthenticatedClient(credential, standing, unnoted=_needs_use_record(device), fingerprint=candidate.fingerprint)
    return load_sessions(known) if role == "operator" else known


# With nothing but its signature


async def _authenticate_unpaired(candidate: DeviceCandidate) -> AuthenticatedClient:
    """Enough to fetch the token that an approval has prepared, and otherwise to ask for an approval."""
    if await db.read(_has_prepared_token, candidate):
        fetched = await db.write(connecting.collect_token, candidate, key=f"device {candidate.fingerprint}")
        if fetched:
            token, secret = fetched
            known = await db.read(_client_from_token, token, candidate)
            return replace(known, device_token=secret)
    return await _request_pairing(candidate, None, None, Reason.NOT_PAIRED)


def _has_prepared_token(candidate: DeviceCandidate) -> bool:
    throttle.check(candidate.address)
    return connecting.find_prepared_tokens(candidate).exists()


async def _admit_node(
    known: AuthenticatedClient, candidate: DeviceCandidate, device: Device, token: DeviceToken | None
) -> AuthenticatedClient:
    """An approved node: its token if it has none, and what it declares now."""
    secret = None
    if token is None or not token.digest or device.declared != connecting.select_declared(candidate.facts):
        here: tuple[Device, str | None] | None = await db.write(
            connecting.record_node_connected, device.pk, candidate, key=f"device {candidate.fingerprint}"
        )
        if here is None:  # put out since it was looked at
            await _request_pairing(candidate, known, None, Reason.NOT_PAIRED)
        device, secret = here
    credential = replace(known.credential, device=device.pk, role="node")
    standing = replace(known.standing, scopes=frozenset())
    return AuthenticatedClient(
        credential, standing, unnoted=_needs_use_record(device), fingerprint=candidate.fingerprint, device_token=secret
    )


async def _request_pairing(
    candidate: DeviceCandidate, known: AuthenticatedClient | None, device: Device | None, reason: Reason
) -> NoReturn:
    """Store the request and say that it waits. What was approved is told only to who came with the account's credential."""
    account = known.standing.user if known else None
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
