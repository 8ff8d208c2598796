"""How a device becomes known to an account: by the account's own credential, or because somebody approves its request.

Rows only; what a handshake answers is decided in `gateway.device_admission`. A device never has more than its owner has now, and
nobody can act for an account by a device that did not come with that account's credential.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from clawsite.accounts import announce, throttle
from clawsite.accounts.groups import READ, WRITE, scopes_of
from clawsite.accounts.models import User
from clawsite.gateway.devices import tokens
from clawsite.gateway.devices.node_commands import allowed_by_default
from clawsite.gateway.devices.tokens import about
from clawsite.gateway.models import Device, DeviceToken, PairingRequest
from clawsite.gateway.models.device import MANAGES_ALL
from clawsite.infra import acting, audit, bus
from clawsite.infra.errors import Conflict, InvalidRequest, NotFound, TooManyAttempts

PENDING = timedelta(seconds=300)
REFRESHED_AFTER = timedelta(seconds=30)  # a device that tries every second is written down twice a minute
MOST_PENDING = 200
MOST_PENDING_OF_ADDRESS = 10
KEPT = timedelta(days=30)
SEEN = ["last_seen_at", "last_address"]
FACTS = ["display_name", "platform", "device_family", "model_identifier", "client_id", "client_version", "declared"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device at the door, whose signature was good. `wanted` is None where it named no scopes."""

    fingerprint: str
    public_key: str
    role: str
    wanted: frozenset[str] | None
    address: str
    facts: dict[str, Any] = field(default_factory=dict)  # what it says of itself, by wire name


@transaction.atomic
def welcome(
    candidate: Candidate, owner: User, held: frozenset[str], *, access_token: int | None = None, anew: bool = False
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
    token = tokens.living(device, "operator")
    device.is_operator = True
    device.scopes = sorted({*(token.ceiling() if token else ()), *(asked & held)})
    device.asked_scopes = sorted({*device.asked_scopes, *asked})
    _is_here(device, candidate, "is_operator", "scopes", "asked_scopes")
    widened = token is not None and token.scopes != device.scopes
    if token is None or anew or (widened and token.made_with_id != access_token):
        token = tokens.prepare(device, "operator", device.scopes, made_with=access_token)
    elif widened:
        token.scopes = device.scopes
        token.save(update_fields=["scopes"])
    if created:
        _record(device, acting.account(owner), "operator", by="credential")
    return device, tokens.hand_out(token) if not token.digest else None


def prepared_for(candidate: Candidate) -> QuerySet[DeviceToken]:
    """Tokens that wait for this device in this role, the newest approval first."""
    waiting = DeviceToken.objects.filter(role=candidate.role, digest="", revoked_at__isnull=True)
    mine = waiting.filter(device__fingerprint=candidate.fingerprint, device__revoked_at__isnull=True, device__owner__is_active=True)
    return mine.select_related("device__owner").order_by("-created_at")


@transaction.atomic
def collect(candidate: Candidate) -> tuple[DeviceToken, str] | None:
    """Hand out the token that waits for a device; None when it was fetched or revoked meanwhile."""
    token = prepared_for(candidate).first()
    device = _living(token.device_id) if token else None
    secret = tokens.hand_out(token) if token and device else None
    if token is None or device is None or secret is None:
        return None
    _is_here(device, candidate)
    return token, secret


@transaction.atomic
def node_is_here(device_pk: int, candidate: Candidate) -> tuple[Device, str | None] | None:
    """Write down what an approved node declares now; the token it is given if it has none. None for one that is none any more."""
    device = _living(device_pk)
    if device is None or not device.is_node:
        return None
    _is_here(device, candidate)
    token = tokens.living(device, "node") or tokens.prepare(device, "node", [])
    return device, None if token.digest else tokens.hand_out(token)


def _living(device_pk: int) -> Device | None:
    """The device as it is, for this transaction alone: who revokes it meanwhile has done so, or waits."""
    return Device.objects.living().select_for_update(of=("self",)).select_related("owner").filter(pk=device_pk).first()


def _is_here(device: Device, candidate: Candidate, *changed: str) -> None:
    _take_facts(device, candidate.facts)
    device.last_seen_at, device.last_address = timezone.now(), candidate.address
    device.save(update_fields=[*SEEN, *FACTS, *changed])


def declared_by(facts: dict[str, Any]) -> dict[str, Any]:
    """What a node says that it can do, of all that a device says of itself."""
    return {name: facts[name] for name in ("commands", "caps", "permissions", "pathEnv") if name in facts}


@transaction.atomic
def ask(candidate: Candidate, account: User | None, reason: str) -> PairingRequest:
    """Store the request, or find the one that waits already. A new one counts against the address it comes from.

    A device that asks for something else asks anew: what somebody is looking at never changes behind their back.
    """
    throttle.check(candidate.address)
    waiting = PairingRequest.objects.pending()
    same = waiting.filter(fingerprint=candidate.fingerprint, role=candidate.role, account=account).first()
    now = timezone.now()
    if same and (same.scopes, same.facts, same.reason) == (_asked(candidate), candidate.facts, reason):
        if same.expires_at < now + PENDING - REFRESHED_AFTER:
            same.expires_at = now + PENDING
            same.save(update_fields=["expires_at"])
        return same
    if same:
        same.expires_at = now
        same.save(update_fields=["expires_at"])
    PairingRequest.objects.filter(expires_at__lt=now - KEPT).delete()
    rivals = waiting.filter(account=account)  # strangers leave room for those who came with an account's credential
    if rivals.count() >= MOST_PENDING or rivals.filter(address=candidate.address).count() >= MOST_PENDING_OF_ADDRESS:
        raise TooManyAttempts(
            "too many devices wait to be approved; try again in a few minutes",
            details={"code": "AUTH_RATE_LIMITED"},
            retryable=True,
            retry_after_ms=60_000,
        )
    if account is None:
        throttle.failed(candidate.address)
    made = PairingRequest.objects.create(
        fingerprint=candidate.fingerprint,
        public_key=candidate.public_key,
        account=account,
        role=candidate.role,
        scopes=_asked(candidate),
        reason=reason,
        facts=candidate.facts,
        address=candidate.address,
        expires_at=now + PENDING,
    )
    _tell(made, "requested")
    return made


def _asked(candidate: Candidate) -> list[str]:
    """Who names no scopes asks for the chat, not for everything somebody may have."""
    if candidate.role != "operator":
        return []
    return sorted({READ, WRITE} if candidate.wanted is None else candidate.wanted)


@transaction.atomic
def approve(
    request_id: str,
    *,
    by: User,
    ceiling: frozenset[str],
    owner: User | None = None,
    commands: list[str] | None = None,
    role: str = "",
    access_token: int | None = None,
) -> PairingRequest:
    """Let a device in. It becomes the approver's, unless it came with an account's credential or a manager names an owner.

    `ceiling` is what the approver has at hand: nobody gets more for themselves by way of a device. `commands` are those that a node
    may be sent. What is let in by way of an access token ends with it. What the device once had, and has no token for any more, it
    does not get back unseen.
    """
    request = _open_request(request_id, by, role, PairingRequest.Status.APPROVED)
    if request.status == PairingRequest.Status.APPROVED:
        if request.device not in Device.objects.for_user(by):  # somebody else let it in, for themselves
            raise NotFound(f"there is no pairing request {request_id}")
        return request
    whose = request.account or owner or by
    if owner is not None and owner != whose:
        raise InvalidRequest("the device came with an account's credential; it can become that account's only")
    if whose not in (by, request.account) and request.role != "node":
        raise InvalidRequest("a device that acts for an account must come with its credential; only a node can be given away")
    if whose != by and not by.has_perm(MANAGES_ALL):
        raise NotFound(f"there is no pairing request {request_id}")
    limit = ceiling if whose == by or access_token else scopes_of(whose)
    device = _approved_device(request, whose, commands)
    device.approved_by = by
    token = tokens.living(device, request.role)
    goes_on = token is not None and token.made_with_id == access_token
    scopes: list[str] = []
    if request.role == "operator":
        had = (token.ceiling() if goes_on else token.ceiling() & limit) if token else frozenset()
        scopes = device.scopes = sorted(had | (set(request.scopes) & limit & scopes_of(whose)))
    device.save()
    if token and goes_on and request.reason == PairingRequest.Reason.SCOPES:
        token.scopes = scopes
        token.save(update_fields=["scopes"])
    else:
        tokens.prepare(device, request.role, scopes, made_with=access_token)
    _decide(request, PairingRequest.Status.APPROVED, by, device)
    _record(device, acting.account(by), request.role, by="approval", request=str(request.pk))
    announce.account_changed(device.owner_id)
    return request


def _approved_device(request: PairingRequest, owner: User, commands: list[str] | None) -> Device:
    """The row, locked and not yet saved; its scopes are those of its token."""
    device, _created = Device.objects.select_for_update().get_or_create(
        owner=owner, fingerprint=request.fingerprint, defaults={"public_key": request.public_key}
    )
    if device.revoked_at:  # what it once had was taken from it
        device.is_operator = device.is_node = False
        device.scopes, device.asked_scopes, device.allowed_commands, device.revoked_at = [], [], [], None
    _take_facts(device, request.facts)
    device.paired_at, device.last_address = timezone.now(), request.address
    if request.role == "operator":
        device.is_operator = True
        device.asked_scopes = sorted({*device.asked_scopes, *request.scopes})
    else:
        device.is_node = True
        device.allowed_commands = chosen_commands(request.facts.get("commands", []), commands)
    return device


def chosen_commands(declared: list[str], chosen: list[str] | None) -> list[str]:
    """Those somebody chose among what the node declares; without a choice, the harmless ones."""
    if chosen is None:
        return [command for command in declared if allowed_by_default(command)]
    if unknown := [command for command in chosen if command not in declared]:
        raise InvalidRequest(f"the node does not declare the command {unknown[0]!r}; it declares {', '.join(declared) or 'none'}")
    return [command for command in declared if command in chosen]


@transaction.atomic
def reject(request_id: str, *, by: User, role: str = "") -> PairingRequest:
    request = _open_request(request_id, by, role, PairingRequest.Status.REJECTED)
    if request.status == PairingRequest.Status.PENDING:
        _decide(request, PairingRequest.Status.REJECTED, by, None)
        audit.record("device.rejected", actor=acting.account(by), subject=("device", request.fingerprint), request=str(request.pk))
    return request


@transaction.atomic
def remove(device: Device, *, by: User) -> None:
    """Take everything back: its tokens end, its sockets are closed, and it stays out until somebody approves it again."""
    now = timezone.now()
    if Device.objects.living().filter(pk=device.pk).update(revoked_at=now):
        DeviceToken.objects.filter(device=device, revoked_at__isnull=True).update(revoked_at=now)
        audit.record("device.revoked", actor=acting.account(by), subject=about(device), owner=device.owner_id, name=str(device))
        announce.account_changed(device.owner_id)


@transaction.atomic
def remove_node(device: Device, *, by: User) -> None:
    """Take back what it has as a node; what is an operator too stays one."""
    if not device.is_operator:
        remove(device, by=by)
    elif Device.objects.living().filter(pk=device.pk, is_node=True).update(is_node=False, allowed_commands=[]):
        DeviceToken.objects.filter(device=device, role="node", revoked_at__isnull=True).update(revoked_at=timezone.now())
        who = acting.account(by)
        audit.record("device.revoked", actor=who, subject=about(device), owner=device.owner_id, name=str(device), role="node")
        announce.account_changed(device.owner_id)


@transaction.atomic
def rename(device: Device, name: str, *, by: User) -> None:
    """It keeps the name, whatever it calls itself."""
    device.display_name = name
    device.save(update_fields=["display_name"])
    audit.record("device.renamed", actor=acting.account(by), subject=about(device), owner=device.owner_id, name=name)


def _open_request(request_id: str, by: User, role: str, wanted: str) -> PairingRequest:
    """The request, locked: waiting, or decided in the same way already."""
    try:
        rows = PairingRequest.objects.for_user(by).filter(pk=UUID(request_id))
    except ValueError:
        rows = PairingRequest.objects.none()
    request = rows.select_for_update(of=("self",)).first()
    if request is None or (role and request.role != role):
        raise NotFound(f"there is no pairing request {request_id}")
    if request.status not in (PairingRequest.Status.PENDING, wanted):
        raise Conflict(f"the pairing request was already {request.status}")
    if request.status == PairingRequest.Status.PENDING and not request.is_open:
        raise Conflict("the pairing request has expired; let the device connect once more, it will ask again")
    return request


def _decide(request: PairingRequest, status: PairingRequest.Status, by: User, device: Device | None) -> None:
    request.status, request.decided_at, request.decided_by, request.device = status, timezone.now(), by, device
    request.save(update_fields=["status", "decided_at", "decided_by", "device"])
    _tell(request, "resolved")


def _take_facts(device: Device, facts: dict[str, Any]) -> None:
    """A name that its owner gave it stays."""
    device.display_name = device.display_name or facts.get("displayName", "")
    device.platform, device.device_family = facts.get("platform", ""), facts.get("deviceFamily", "")
    device.model_identifier, device.client_id = facts.get("modelIdentifier", ""), facts.get("clientId", "")
    device.client_version = facts.get("version", "")
    if "commands" in facts:
        device.declared = declared_by(facts)


def _record(device: Device, actor: acting.Actor, role: str, **how: Any) -> None:
    scopes = {"scopes": device.scopes} if role == "operator" else {"commands": device.allowed_commands}
    audit.record(
        "device.paired", actor=actor, subject=about(device), owner=device.owner_id, name=str(device), role=role, **scopes, **how
    )


def _tell(request: PairingRequest, change: str) -> None:
    told = {"k": "pairing", "id": str(request.pk), "change": change}
    transaction.on_commit(lambda: bus.publish(told))
