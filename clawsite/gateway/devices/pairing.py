"""Decisions about devices: approve, deny, remove, rename. Database writes only.

A device never has more access than its owner currently has, and it can only act for an account whose credential it presented.
"""

from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

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
    """Approve a device. It belongs to the approver unless it presented an account's credential or a manager names an owner.

    `ceiling` is the set of the approver's scopes: approving a device never gives approvers more than they have. `commands` may be
    sent to a node. Access approved with an access token ends with that token. The device does not regain earlier access for
    which it no longer has a token.
    """
    request = _open_request(request_id, by, role, PairingRequest.Status.APPROVED)
    if request.status == PairingRequest.Status.APPROVED:
        if request.device not in Device.objects.for_user(by):  # another user approved it as their own
            raise _request_not_found(request_id)
        return request
    device_owner = request.account or owner or by
    if owner is not None and owner != device_owner:
        raise InvalidRequest(_("The device presented an account’s credentials and can only belong to that account."))
    if device_owner not in (by, request.account) and request.role != "node":
        raise InvalidRequest(
            _("A device that acts for an account must present its credentials. Only a node can be assigned to another owner.")
        )
    if device_owner != by and not by.has_perm(MANAGE_ANY_DEVICE):
        raise _request_not_found(request_id)
    limit = ceiling if device_owner == by or access_token else scopes_of(device_owner)
    device = _approved_device(request, device_owner, commands)
    device.approved_by = by
    token = tokens.find_active_token(device, request.role)
    keeps_token = token is not None and token.made_with_id == access_token
    scopes: list[str] = []
    if request.role == "operator":
        had = (token.ceiling() if keeps_token else token.ceiling() & limit) if token else frozenset()
        scopes = device.scopes = sorted(had | (set(request.scopes) & limit & scopes_of(device_owner)))
    device.save()
    if token and keeps_token and request.reason == PairingRequest.Reason.SCOPES:
        token.scopes = scopes
        token.save(update_fields=["scopes"])
    else:
        tokens.prepare_token(device, request.role, scopes, made_with=access_token)
    _decide(request, PairingRequest.Status.APPROVED, by, device)
    record_paired(device, acting.actor_for_user(by), request.role, by="approval", request=str(request.pk))
    change_notices.notify_account_changed(device.owner_id)
    return request


def _approved_device(request: PairingRequest, owner: User, commands: list[str] | None) -> Device:
    """Return the device row, locked but not saved; its scopes are those of its token."""
    device, _created = Device.objects.select_for_update().get_or_create(
        owner=owner, fingerprint=request.fingerprint, defaults={"public_key": request.public_key}
    )
    if device.revoked_at:  # the device's earlier access stays revoked
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
    """Return the chosen commands, all of which the node must declare; without a choice, the declared ones allowed by default."""
    if chosen is None:
        return [command for command in declared if is_allowed_by_default(command)]
    if unknown := [command for command in chosen if command not in declared]:
        raise InvalidRequest(
            _("The node does not declare the command %(command)s. It declares: %(declared)s.")
            % {"command": unknown[0], "declared": ", ".join(declared) or "–"}
        )
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
    """Revoke a device and its tokens and close its sockets. It can't connect until it is approved again."""
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
    """Revoke a device's access as a node. If it is also an operator, it stays one."""
    if not device.is_operator:
        remove(device, by=by)
    elif Device.objects.active().filter(pk=device.pk, is_node=True).update(is_node=False, allowed_commands=[]):
        DeviceToken.objects.filter(device=device, role="node", revoked_at__isnull=True).update(revoked_at=timezone.now())
        actor = acting.actor_for_user(by)
        audit_log.record(
            "device.revoked", actor=actor, subject=audit_subject(device), owner=device.owner_id, name=str(device), role="node"
        )
        change_notices.notify_account_changed(device.owner_id)


@transaction.atomic
def rename(device: Device, name: str, *, by: User) -> None:
    """Set the device's name. From then on, the name that the device reports is ignored."""
    device.display_name = name
    device.save(update_fields=["display_name"])
    audit_log.record(
        "device.renamed", actor=acting.actor_for_user(by), subject=audit_subject(device), owner=device.owner_id, name=name
    )


def _open_request(request_id: str, by: User, role: str, wanted: str) -> PairingRequest:
    """Return the request, locked: either pending or already decided the same way."""
    try:
        rows = PairingRequest.objects.for_user(by).filter(pk=UUID(request_id))
    except ValueError:
        rows = PairingRequest.objects.none()
    request = rows.select_for_update(of=("self",)).first()
    if request is None or (role and request.role != role):
        raise _request_not_found(request_id)
    if request.status not in (PairingRequest.Status.PENDING, wanted):
        raise Conflict(_("This pairing request is closed: %(status)s.") % {"status": request.get_status_display()})
    if request.status == PairingRequest.Status.PENDING and not request.is_open:
        raise Conflict(_("The pairing request has expired. Reconnect the device to request pairing again."))
    return request


def _request_not_found(request_id: str) -> NotFound:
    return NotFound(_("Pairing request not found: %(id)s") % {"id": request_id})


def _decide(request: PairingRequest, status: PairingRequest.Status, by: User, device: Device | None) -> None:
    request.status, request.decided_at, request.decided_by, request.device = status, timezone.now(), by, device
    request.save(update_fields=["status", "decided_at", "decided_by", "device"])
    publish_pairing_change(request, "resolved")
