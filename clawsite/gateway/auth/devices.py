"""Whether a device may come in: its account's credential first, then its signature, its own token, or an approval.

The order is OpenClaw's. An operator's device is taken in on the word of its account, which has shown its credential; a node is let
in only after a person has approved it, whatever it brings.
"""

from dataclasses import dataclass, replace
from typing import Any, NoReturn

from clawsite.accounts.groups import scopes_of
from clawsite.accounts.sign_in import throttle
from clawsite.accounts.sign_in.recent_password import cookie_is_recent
from clawsite.accounts.tokens import USED_AT_MOST_EVERY
from clawsite.gateway.auth.accounts import Knock, Known, by_credential, sent_secret, slow_down, with_sessions
from clawsite.gateway.auth.authority import Credential, Role, Standing
from clawsite.gateway.auth.refusals import bad_device, not_paired, unauthorized
from clawsite.gateway.devices import connecting, tokens
from clawsite.gateway.devices.connecting import Candidate
from clawsite.gateway.devices.identity import BadProof, Circumstances, Proof, Signed, verify
from clawsite.gateway.models import Device, DeviceToken, PairingRequest
from clawsite.gateway.protocol.frames import ConnectParams, DeviceProof
from clawsite.gateway.protocol.scopes import wanted_scopes
from clawsite.infra import clock, db
from clawsite.infra.errors import Unavailable

Reason = PairingRequest.Reason
HINT = "somebody who may pair devices approves it: on the account page, in the admin, or by device.pair.approve"


async def admit_device(params: ConnectParams, protocol: int, knock: Knock, nonce: str) -> Known:
    """Refused unless the device is who it says it is, and known to an account or taken in by one now."""
    if params.device is None:
        raise not_paired("device identity required", "DEVICE_IDENTITY_REQUIRED")
    known = await by_credential(params, knock)
    candidate = _proven(params, params.device, protocol, knock, nonce)
    secret = sent_secret(params)
    try:
        if known is not None:
            stale = (params.auth.device_token or "") if params.auth else ""
            return await _with_account(known, candidate, stale)
        return await (_with_token(secret, candidate) if secret else _alone(candidate))
    except Unavailable as error:
        raise slow_down(error) from error


def _proven(params: ConnectParams, device: DeviceProof, protocol: int, knock: Knock, nonce: str) -> Candidate:
    client, auth = params.client, params.auth
    proof = Proof(device.id, device.public_key, device.signature, device.signed_at, device.nonce)
    token = (auth.token or auth.device_token or auth.bootstrap_token or "") if auth else ""
    family = client.device_family or ""
    signed = Signed(client.id, client.mode, params.role, tuple(params.scopes), token, client.platform, family)
    try:
        verify(proof, signed, Circumstances(protocol, nonce, clock.now_ms(), knock.local))
    except BadProof as bad:
        raise bad_device(bad.message, bad.code) from bad
    wanted = wanted_scopes(params.scopes)
    return Candidate(device.id, device.public_key, params.role, wanted, knock.address, _facts(params))


def _facts(params: ConnectParams) -> dict[str, Any]:
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


async def _with_account(known: Known, candidate: Candidate, stale: str) -> Known:
    if known.credential.kind == "cookie" and not await db.read(cookie_is_recent, known.credential.cookie):
        return await _as_it_is(known, candidate)
    if known.credential.kind == "gateway-token" and candidate.role == "operator":
        return known  # a new one in its place must end all that came with it
    device, token = await db.read(_device_of, known.standing.user.pk, candidate, stale)
    paired = device is not None and device.revoked_at is None
    if candidate.role == "node":
        if device is None or not paired or not device.is_node:
            await _refuse(candidate, known, device, Reason.ROLE if paired else Reason.NOT_PAIRED)
        return await _node(known, candidate, device, token)
    if device is not None and not paired:
        await _refuse(candidate, known, None, Reason.NOT_PAIRED)
    held, secret = known.standing.scopes, None
    wanted = held if candidate.wanted is None else candidate.wanted & held
    has_token = token is not None and bool(token.digest)
    if device is None or not has_token or not device.is_operator or not wanted <= set(device.scopes):
        anew = bool(stale) and token is None
        welcomed: tuple[Device, str | None] | None = await db.write(
            connecting.welcome,
            candidate,
            known.standing.user,
            held,
            access_token=known.credential.token_id if known.credential.kind == "api-token" else None,
            anew=anew,
            key=f"device {candidate.fingerprint}",
        )
        if welcomed is None:  # revoked since it was looked at
            await _refuse(candidate, known, None, Reason.NOT_PAIRED)
        device, secret = welcomed
    return replace(
        known,
        credential=replace(known.credential, device=device.pk),
        unnoted=known.unnoted or _is_unnoted(device),
        fingerprint=candidate.fingerprint,
        device_token=secret,
    )


async def _as_it_is(known: Known, candidate: Candidate) -> Known:
    """A browser in which the password was typed long ago comes in as what it is, but takes nothing lasting with it."""
    if candidate.role == "node":
        await _refuse(candidate, known, None, Reason.NOT_PAIRED)
    return known


def _device_of(user_pk: int, candidate: Candidate, stale: str) -> tuple[Device | None, DeviceToken | None]:
    """The account's row of the device, and the token it has: none where the one it sent along is not good any more."""
    device = Device.objects.filter(owner_id=user_pk, fingerprint=candidate.fingerprint).first()
    token = tokens.living(device, candidate.role) if device else None
    if stale and tokens.find(stale, candidate.fingerprint) is None:
        token = None
    return device, token


def _is_unnoted(device: Device) -> bool:
    return device.last_seen_at is None or device.last_seen_at < clock.now() - USED_AT_MOST_EVERY


# With its own token


@dataclass(frozen=True, slots=True)
class _Found:
    token: DeviceToken
    known: Known
    of_account: frozenset[str]  # what its owner's account could give


async def _with_token(secret: str, candidate: Candidate) -> Known:
    found = await db.read(_by_token, secret, candidate)
    if found is None:
        await db.write(throttle.failed, candidate.address)
        words = "the device token is wrong, revoked, or another device's; pair the device again or connect with another token"
        raise unauthorized(
            words, "AUTH_DEVICE_TOKEN_MISMATCH", canRetryWithDeviceToken=False, recommendedNextStep="update_auth_credentials"
        )
    device = found.token.device
    if found.token.role != candidate.role:
        await _refuse(candidate, found.known, device, Reason.ROLE)
    if candidate.role == "node":
        return await _node(found.known, candidate, device, found.token)
    # What it asked for before was answered with what it has; only a wish that is new, and can be granted, is an upgrade.
    new = (candidate.wanted or frozenset()) - set(device.asked_scopes) - set(found.token.scopes)
    if new & found.of_account:
        await _refuse(candidate, found.known, device, Reason.SCOPES)
    return found.known


def _by_token(secret: str, candidate: Candidate) -> _Found | None:
    throttle.check(candidate.address)
    token = tokens.find(secret, candidate.fingerprint)
    return _Found(token, _known_by(token, candidate), scopes_of(token.device.owner)) if token else None


def _known_by(token: DeviceToken, candidate: Candidate) -> Known:
    device = token.device
    role: Role = "node" if candidate.role == "node" else "operator"
    credential = Credential("device-token", token_id=token.pk, device=device.pk, role=role)
    standing = Standing.of(token.limited_account(), token.ceiling())
    known = Known(credential, standing, unnoted=_is_unnoted(device), fingerprint=candidate.fingerprint)
    return with_sessions(known) if role == "operator" else known


# With nothing but its signature


async def _alone(candidate: Candidate) -> Known:
    """Enough to fetch the token that an approval has prepared, and otherwise to ask for an approval."""
    if await db.read(_is_awaited, candidate):
        fetched = await db.write(connecting.collect, candidate, key=f"device {candidate.fingerprint}")
        if fetched:
            token, secret = fetched
            known = await db.read(_known_by, token, candidate)
            return replace(known, device_token=secret)
    return await _refuse(candidate, None, None, Reason.NOT_PAIRED)


def _is_awaited(candidate: Candidate) -> bool:
    throttle.check(candidate.address)
    return connecting.prepared_for(candidate).exists()


async def _node(known: Known, candidate: Candidate, device: Device, token: DeviceToken | None) -> Known:
    """An approved node: its token if it has none, and what it declares now."""
    secret = None
    if token is None or not token.digest or device.declared != connecting.declared_by(candidate.facts):
        here: tuple[Device, str | None] | None = await db.write(
            connecting.node_is_here, device.pk, candidate, key=f"device {candidate.fingerprint}"
        )
        if here is None:  # put out since it was looked at
            await _refuse(candidate, known, None, Reason.NOT_PAIRED)
        device, secret = here
    credential = replace(known.credential, device=device.pk, role="node")
    standing = replace(known.standing, scopes=frozenset())
    return Known(credential, standing, unnoted=_is_unnoted(device), fingerprint=candidate.fingerprint, device_token=secret)


async def _refuse(candidate: Candidate, known: Known | None, device: Device | None, reason: Reason) -> NoReturn:
    """Store the request and say that it waits. What was approved is told only to who came with the account's credential."""
    account = known.standing.user if known else None
    request = await db.write(connecting.ask, candidate, account, reason.value, key=f"device {candidate.fingerprint}")
    details: dict[str, Any] = {
        "reason": reason.value,
        "requestId": str(request.pk),
        "deviceId": candidate.fingerprint,
        "requestedRole": candidate.role,
        "requestedScopes": request.scopes,
        "remediationHint": HINT,
    }
    if device is not None and device.revoked_at is None:
        details |= {"approvedRoles": device.roles, "approvedScopes": device.scopes}
    raise not_paired("pairing required", "PAIRING_REQUIRED", **details)
