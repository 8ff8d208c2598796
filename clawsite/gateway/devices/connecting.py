"""Devices at the door: known by their account's credential, come for a token that waits for them, or asking to be let in.

Rows only; what a handshake answers is decided in `gateway.device_admission`, and who is let in by people in `pairing`.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from clawsite.accounts.groups import READ, WRITE
from clawsite.accounts.models import User
from clawsite.accounts.sign_in import throttle
from clawsite.gateway.devices import tokens
from clawsite.gateway.devices.tokens import audit_subject
from clawsite.gateway.models import Device, DeviceToken, PairingRequest
from clawsite.infra import bus
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.errors import TooManyAttempts

PENDING_LIFETIME = timedelta(seconds=300)
REFRESH_AFTER = timedelta(seconds=30)  # a device that tries every second is written down twice a minute
MAX_PENDING = 200
MAX_PENDING_PER_ADDRESS = 10
RETENTION = timedelta(days=30)
SEEN_FIELDS = ["last_seen_at", "last_address"]
FACT_FIELDS = ["display_name", "platform", "device_family", "model_identifier", "client_id", "client_version", "declared"]


@dataclass(frozen=True, slots=True)
class DeviceCandidate:
    """A device at the door, whose signature was good. `wanted` is None where it named no scopes."""

    fingerprint: str
    public_key: str
    role: str
    wanted: frozenset[str] | None
    address: str
    facts: dict[str, Any] = field(default_factory=dict)  # what it says of itself, by wire name


@transaction.atomic
def register_device(
    candidate: DeviceCandidate, owner: User, held: frozenset[str], *, access_token: int | None = None, anew: bool = False
) -> tuple[Device, str | None] | None:
    """Make a device known whose owner's credential came with it; the token it is given if it has none, or wants it `anew`.

    Its scopes are those it asked for of what that credential allows (`held`); an access token goes on vouching for it. None for one
    that was revoked.
    """
    asked = held if candidate.wanted is None else candidate.wanted
    device, created = Device.objects.select_for_update().get_or_create(
        owner=owner, fingerprint=candidate.fingerprint, defaults={"public_key": candidate.public_key, "is_operator": True}
    )
    if device.revoked_at:
        return None
    token = tokens.find_active_token(device, "operator")
    device.is_operator = True
    device.scopes = sorted({*(token.ceiling() if token else ()), *(asked & held)})
    device.asked_scopes = sorted({*device.asked_scopes, *asked})
    _record_seen(device, candidate, "is_operator", "scopes", "asked_scopes")
    widened = token is not None and token.scopes != device.scopes
    if token is None or anew or (widened and token.made_with_id != access_token):
        token = tokens.prepare_token(device, "operator", device.scopes, made_with=access_token)
    elif widened:
        token.scopes = device.scopes
        token.save(update_fields=["scopes"])
    if created:
        record_paired(device, acting.actor_for_user(owner), "operator", by="credential")
    return device, tokens.issue_token(token) if not token.digest else None


def find_prepared_tokens(candidate: DeviceCandidate) -> QuerySet[DeviceToken]:
    """Tokens that wait for this device in this role, the newest approval first."""
    waiting = DeviceToken.objects.filter(role=candidate.role, digest="", revoked_at__isnull=True)
    mine = waiting.filter(device__fingerprint=candidate.fingerprint, device__revoked_at__isnull=True, device__owner__is_active=True)
    return mine.select_related("device__owner").order_by("-created_at")


@transaction.atomic
def collect_token(candidate: DeviceCandidate) -> tuple[DeviceToken, str] | None:
    """Hand out the token that waits for a device; None when it was fetched or revoked meanwhile."""
    token = find_prepared_tokens(candidate).first()
    device = _lock_device(token.device_id) if token else None
    secret = tokens.issue_token(token) if token and device else None
    if token is None or device is None or secret is None:
        return None
    _record_seen(device, candidate)
    return token, secret


@transaction.atomic
def record_node_connected(device_pk: int, candidate: DeviceCandidate) -> tuple[Device, str | None] | None:
    """Write down what an approved node declares now; the token it is given if it has none. None for one that is none any more."""
    device = _lock_device(device_pk)
    if device is None or not device.is_node:
        return None
    _record_seen(device, candidate)
    token = tokens.find_active_token(device, "node") or tokens.prepare_token(device, "node", [])
    return device, None if token.digest else tokens.issue_token(token)


def _lock_device(device_pk: int) -> Device | None:
    """The device as it is, for this transaction alone: who revokes it meanwhile has done so, or waits."""
    return Device.objects.active().select_for_update(of=("self",)).select_related("owner").filter(pk=device_pk).first()


def _record_seen(device: Device, candidate: DeviceCandidate, *changed: str) -> None:
    apply_facts(device, candidate.facts)
    device.last_seen_at, device.last_address = timezone.now(), candidate.address
    device.save(update_fields=[*SEEN_FIELDS, *FACT_FIELDS, *changed])


def select_declared(facts: dict[str, Any]) -> dict[str, Any]:
    """What a node says that it can do, of all that a device says of itself."""
    return {name: facts[name] for name in ("commands", "caps", "permissions", "pathEnv") if name in facts}


@transaction.atomic
def create_pairing_request(candidate: DeviceCandidate, account: User | None, reason: str) -> PairingRequest:
    """Store the request, or find the one that waits already. A new one counts against the address it comes from.

    A device that asks for something else asks anew: what somebody is looking at never changes behind their back.
    """
    throttle.check(candidate.address)
    waiting = PairingRequest.objects.pending()
    same = waiting.filter(fingerprint=candidate.fingerprint, role=candidate.role, account=account).first()
    now = timezone.now()
    if same and (same.scopes, same.facts, same.reason) == (_requested_scopes(candidate), candidate.facts, reason):
        if same.expires_at < now + PENDING_LIFETIME - REFRESH_AFTER:
            same.expires_at = now + PENDING_LIFETIME
            same.save(update_fields=["expires_at"])
        return same
    if same:
        same.expires_at = now
        same.save(update_fields=["expires_at"])
    PairingRequest.objects.filter(expires_at__lt=now - RETENTION).delete()
    rivals = waiting.filter(account=account)  # strangers leave room for those who came with an account's credential
    if rivals.count() >= MAX_PENDING or rivals.filter(address=candidate.address).count() >= MAX_PENDING_PER_ADDRESS:
        raise TooManyAttempts(
            "too many devices wait to be approved; try again in a few minutes",
            details={"code": "AUTH_RATE_LIMITED"},
            retryable=True,
            retry_after_ms=60_000,
        )
    if account is None:
        throttle.record_failure(candidate.address)
    made = PairingRequest.objects.create(
        fingerprint=candidate.fingerprint,
        public_key=candidate.public_key,
        account=account,
        role=candidate.role,
        scopes=_requested_scopes(candidate),
        reason=reason,
        facts=candidate.facts,
        address=candidate.address,
        expires_at=now + PENDING_LIFETIME,
    )
    publish_pairing_change(made, "requested")
    return made


def _requested_scopes(candidate: DeviceCandidate) -> list[str]:
    """Who names no scopes asks for the chat, not for everything somebody may have."""
    if candidate.role != "operator":
        return []
    return sorted({READ, WRITE} if candidate.wanted is None else candidate.wanted)


def apply_facts(device: Device, facts: dict[str, Any]) -> None:
    """A name that its owner gave it stays."""
    device.display_name = device.display_name or facts.get("displayName", "")
    device.platform, device.device_family = facts.get("platform", ""), facts.get("deviceFamily", "")
    device.model_identifier, device.client_id = facts.get("modelIdentifier", ""), facts.get("clientId", "")
    device.client_version = facts.get("version", "")
    if "commands" in facts:
        device.declared = select_declared(facts)


def record_paired(device: Device, actor: acting.Actor, role: str, **how: Any) -> None:
    scopes = {"scopes": device.scopes} if role == "operator" else {"commands": device.allowed_commands}
    audit_log.record(
        "device.paired",
        actor=actor,
        subject=audit_subject(device),
        owner=device.owner_id,
        name=str(device),
        role=role,
        **scopes,
        **how,
    )


def publish_pairing_change(request: PairingRequest, change: str) -> None:
    told = {"k": "pairing", "id": str(request.pk), "change": change}
    transaction.on_commit(lambda: bus.publish(told))
