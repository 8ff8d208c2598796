"""What people decide about devices: letting them in, leaving them out, taking everything back. Rows only.

A device never has more than its owner has now, and nobody can act for an account by a device that did not come with that account's
credential.
"""

from uuid import UUID

from django.db import transaction
from django.utils import timezone

from clawsite.accounts import change_notices
from clawsite.accounts.groups import scopes_of
from clawsite.accounts.models import User
from clawsite.gateway.devices import tokens
from clawsite.gateway.devices.connecting import apply_facts, publish_pairing_change, record_paired
from clawsite.gateway.devices.node_commands import is_allowed_by_default
from clawsite.gateway.devices.tokens import audit_subject
from clawsite.gateway.models import Device, DeviceToken, PairingRequest
from clawsite.gateway.models.device import MANAGE_ANY_DEVICE
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.errors import Conflict, InvalidRequest, NotFound


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
    if whose != by and not by.has_perm(MANAGE_ANY_DEVICE):
        raise NotFound(f"there is no pairing request {request_id}")
    limit = ceiling if whose == by or access_token else scopes_of(whose)
    device = _approved_device(request, whose, commands)
    device.approved_by = by
    token = tokens.find_active_token(device, request.role)
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
        tokens.prepare_token(device, request.role, scopes, made_with=access_token)
    _decide(request, PairingRequest.Status.APPROVED, by, device)
    record_paired(device, acting.actor_for_user(by), request.role, by="approval", request=str(request.pk))
    change_notices.notify_account_changed(device.owner_id)
    return request


def _approved_device(request: PairingRequest, owner: User, commands: list[str] | None) -> Device:
    """The row, locked and not yet saved; its scopes are those of its token."""
    device, _created = Device.objects.select_for_update().get_or_create(
        owner=owner, fingerprint=request.fingerprint, defaults={"public_key": request.public_key}
    )
    if device.revoked_at:  # what it once had was taken from it
        device.is_operator = device.is_node = False
        device.scopes, device.asked_scopes, device.allowed_commands, device.revoked_at = [], [], [], None
    apply_facts(device, request.facts)
    device.paired_at, device.last_address = timezone.now(), request.address
    if request.role == "operator":
        device.is_operator = True
        device.asked_scopes = sorted({*device.asked_scopes, *request.scopes})
    else:
        device.is_node = True
        device.allowed_commands = choose_commands(request.facts.get("commands", []), commands)
    return device


def choose_commands(declared: list[str], chosen: list[str] | None) -> list[str]:
    """Those somebody chose among what the node declares; without a choice, the harmless ones."""
    if chosen is None:
        return [command for command in declared if is_allowed_by_default(command)]
    if unknown := [command for command in chosen if command not in declared]:
        raise InvalidRequest(f"the node does not declare the command {unknown[0]!r}; it declares {', '.join(declared) or 'none'}")
    return [command for command in declared if command in chosen]


@transaction.atomic
def reject(request_id: str, *, by: User, role: str = "") -> PairingRequest:
    request = _open_request(request_id, by, role, PairingRequest.Status.REJECTED)
    if request.status == PairingRequest.Status.PENDING:
        _decide(request, PairingRequest.Status.REJECTED, by, None)
        audit_log.record(
            "device.rejected", actor=acting.actor_for_user(by), subject=("device", request.fingerprint), request=str(request.pk)
        )
    return request


@transaction.atomic
def remove(device: Device, *, by: User) -> None:
    """Take everything back: its tokens end, its sockets are closed, and it stays out until somebody approves it again."""
    now = timezone.now()
    if Device.objects.active().filter(pk=device.pk).update(revoked_at=now):
        DeviceToken.objects.filter(device=device, revoked_at__isnull=True).update(revoked_at=now)
        audit_log.record(
            "device.revoked",
            actor=acting.actor_for_user(by),
            subject=audit_subject(device),
            owner=device.owner_id,
            name=str(device),
        )
        change_notices.notify_account_changed(device.owner_id)


@transaction.atomic
def remove_node(device: Device, *, by: User) -> None:
    """Take back what it has as a node; what is an operator too stays one."""
    if not device.is_operator:
        remove(device, by=by)
    elif Device.objects.active().filter(pk=device.pk, is_node=True).update(is_node=False, allowed_commands=[]):
        DeviceToken.objects.filter(device=device, role="node", revoked_at__isnull=True).update(revoked_at=timezone.now())
        who = acting.actor_for_user(by)
        audit_log.record(
            "device.revoked", actor=who, subject=audit_subject(device), owner=device.owner_id, name=str(device), role="node"
        )
        change_notices.notify_account_changed(device.owner_id)


@transaction.atomic
def rename(device: Device, name: str, *, by: User) -> None:
    """It keeps the name, whatever it calls itself."""
    device.display_name = name
    device.save(update_fields=["display_name"])
    audit_log.record(
        "device.renamed", actor=acting.actor_for_user(by), subject=audit_subject(device), owner=device.owner_id, name=name
    )


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
    publish_pairing_change(request, "resolved")
