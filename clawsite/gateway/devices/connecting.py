"""Database writes when a device connects: register it, hand out its token, or store a pairing request.

`gateway.auth.devices` decides whether a handshake succeeds; `pairing` stores decisions made by people.
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
from clawsite.infra.bus import BusMessage
from clawsite.infra.errors import TooManyAttempts

PENDING_LIFETIME = timedelta(seconds=300)
REFRESH_AFTER = timedelta(seconds=30)  # a device that retries every second causes two writes per minute
MAX_PENDING = 200
MAX_PENDING_PER_ADDRESS = 10
RETENTION = timedelta(days=30)
SEEN_FIELDS = ["last_seen_at", "last_address"]
FACT_FIELDS = ["display_name", "platform", "device_family", "model_identifier", "client_id", "client_version", "declared"]


@dataclass(frozen=True)
class PairingChanged(BusMessage, kind="pairing"):
    """A pairing request was created or decided. Receivers read the row."""

    id: str
    change: str


@dataclass(frozen=True, slots=True)
class DeviceCandidate:
    """A connecting device with a valid signature. `requested_scopes` is None if it requested no particular scopes."""

    fingerprint: str
    public_key: str
    role: str
    requested_scopes: frozenset[str] | None
    address: str
    facts: dict[str, Any] = field(default_factory=dict)  # what it reports about itself, by wire name


@transaction.atomic
def register_device(
    candidate: DeviceCandidate, owner: User, held: frozenset[str], *, access_token: int | None = None, reissue: bool = False
) -> tuple[Device, str | None] | None:
    """Pair a device that presented its owner's credential. Return a new token if it has none, or if `reissue` is set.

    Its scopes are the requested ones that the credential allows (`held`). A device token created with an access token stays bound
    to it. Return None if the device was revoked.
    """
    requested = held if candidate.requested_scopes is None else candidate.requested_scopes
    device, created = Device.objects.select_for_update().get_or_create(
        owner=owner, fingerprint=candidate.fingerprint, defaults={"public_key": candidate.public_key, "is_operator": True}
    )
    if device.revoked_at:
        return None
    token = tokens.find_active_token(device, "operator")
    device.is_operator = True
    device.scopes = sorted({*(token.ceiling() if token else ()), *(requested & held)})
    device.asked_scopes = sorted({*device.asked_scopes, *requested})
    _record_seen(device, candidate, "is_operator", "scopes", "asked_scopes")
    widened = token is not None and token.scopes != device.scopes
    if token is None or reissue or (widened and token.made_with_id != access_token):
        token = tokens.prepare_token(device, "operator", device.scopes, made_with=access_token)
    elif widened:
        token.scopes = device.scopes
        token.save(update_fields=["scopes"])
    if created:
        record_paired(device, acting.actor_for_user(owner), "operator", by="credential")
    return device, tokens.issue_token(token) if not token.digest else None


def find_prepared_tokens(candidate: DeviceCandidate) -> QuerySet[DeviceToken]:
    """Return tokens prepared for this device in this role, newest approval first."""
    prepared = DeviceToken.objects.filter(role=candidate.role, digest="", revoked_at__isnull=True)
    own = prepared.filter(device__fingerprint=candidate.fingerprint, device__revoked_at__isnull=True, device__owner__is_active=True)
    return own.select_related("device__owner").order_by("-created_at")


@transaction.atomic
def collect_token(candidate: DeviceCandidate) -> tuple[DeviceToken, str] | None:
    """Hand out the token prepared for a device. Return None if it was already collected or revoked."""
    token = find_prepared_tokens(candidate).first()
    device = _lock_device(token.device_id) if token else None
    secret = tokens.issue_token(token) if token and device else None
    if token is None or device is None or secret is None:
        return None
    _record_seen(device, candidate)
    return token, secret


@transaction.atomic
def record_node_connected(device_pk: int, candidate: DeviceCandidate) -> tuple[Device, str | None] | None:
    """Store what an approved node declares, and return a new token if it has none. Return None if it is no longer a node."""
    device = _lock_device(device_pk)
    if device is None or not device.is_node:
        return None
    _record_seen(device, candidate)
    token = tokens.find_active_token(device, "node") or tokens.prepare_token(device, "node", [])
    return device, None if token.digest else tokens.issue_token(token)


def _lock_device(device_pk: int) -> Device | None:
    """Return the device unless it was revoked, locked so that a concurrent revocation waits for this transaction."""
    return Device.objects.active().select_for_update(of=("self",)).select_related("owner").filter(pk=device_pk).first()


def _record_seen(device: Device, candidate: DeviceCandidate, *changed: str) -> None:
    apply_facts(device, candidate.facts)
    device.last_seen_at, device.last_address = timezone.now(), candidate.address
    device.save(update_fields=[*SEEN_FIELDS, *FACT_FIELDS, *changed])


def select_declared(facts: dict[str, Any]) -> dict[str, Any]:
    """Select a node's declared abilities from what it reports about itself."""
    return {name: facts[name] for name in ("commands", "caps", "permissions", "pathEnv") if name in facts}


@transaction.atomic
def create_pairing_request(candidate: DeviceCandidate, account: User | None, reason: str) -> PairingRequest:
    """Store a pairing request or return the identical pending one. A new one counts toward the limit of its address.

    If the device requests something else, a new request replaces the old one, so that a request never changes while a person
    reviews it.
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
    pending = waiting.filter(account=account)  # unauthenticated devices can't use up the limit of authenticated ones
    if pending.count() >= MAX_PENDING or pending.filter(address=candidate.address).count() >= MAX_PENDING_PER_ADDRESS:
        raise TooManyAttempts(
            "too many pending pairing requests; try again in a few minutes",
            details={"code": "AUTH_RATE_LIMITED"},
            retryable=True,
            retry_after_ms=60_000,
        )
    if account is None:
        throttle.record_failure(candidate.address)
    request = PairingRequest.objects.create(
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
    publish_pairing_change(request, "requested")
    return request


def _requested_scopes(candidate: DeviceCandidate) -> list[str]:
    """Return the requested scopes; by default those needed to chat, not all that the owner has."""
    if candidate.role != "operator":
        return []
    return sorted({READ, WRITE} if candidate.requested_scopes is None else candidate.requested_scopes)


def apply_facts(device: Device, facts: dict[str, Any]) -> None:
    """Copy what the device reports to its row. A name set by its owner is kept."""
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
    bus.publish_on_commit(PairingChanged(str(request.pk), change))
