"""Device tokens: issue, find, rotate and revoke. A token is only valid with the signature of its device.

A secret is only sent to the device itself, in its handshake or in response to its own request.
"""

import secrets
from hashlib import sha256

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from clawsite.accounts import change_notices
from clawsite.accounts.models import User
from clawsite.accounts.tokens import LAST_USED_UPDATE_INTERVAL
from clawsite.gateway.models import Device, DeviceToken
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.errors import InvalidRequest, NotFound

TOKEN_PREFIX = "claw_dev_"  # noqa: S105  # access tokens have hexadecimal digits after `claw_`


def is_device_token(secret: str) -> bool:
    return secret.startswith(TOKEN_PREFIX)


def find_active_token(device: Device, role: str) -> DeviceToken | None:
    return DeviceToken.objects.valid().filter(device=device, role=role).first()


def find_token(secret: str, fingerprint: str) -> DeviceToken | None:
    """Return the device's token with its device and owner, if all three are valid."""
    return DeviceToken.objects.valid().filter(digest=_digest(secret), device__fingerprint=fingerprint).first()


def prepare_token(device: Device, role: str, scopes: list[str], *, made_with: int | None = None) -> DeviceToken:
    """Revoke the old token and create one that the device gets on its next connect. `made_with`: the access token it depends on."""
    DeviceToken.objects.filter(device=device, role=role, revoked_at__isnull=True).update(revoked_at=timezone.now())
    return DeviceToken.objects.create(device=device, role=role, scopes=sorted(scopes), made_with_id=made_with)


def issue_token(token: DeviceToken) -> str | None:
    """Return the token's secret, once. Return None if it was already issued or revoked."""
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    waiting = DeviceToken.objects.filter(pk=token.pk, digest="", revoked_at__isnull=True)
    if not waiting.update(digest=_digest(secret), issued_at=timezone.now()):
        return None
    device = token.device
    audit_log.record(
        "device_token.made",
        actor=acting.actor_for_user(device.owner),
        subject=audit_subject(device),
        owner=device.owner_id,
        role=token.role,
        scopes=token.scopes,
    )
    return secret


@transaction.atomic
def rotate_token(
    device: Device, role: str, scopes: frozenset[str] | None, *, by: User, access_token: int | None = None
) -> DeviceToken:
    """Revoke the token and prepare another with the same or fewer scopes, which become the device's scopes.

    If the old token depends on an access token, so does the new one.

    The caller calls `notify_account_changed` afterwards: a device that rotates its own token must get the new one first.
    """
    before = _lock_token(device, role)
    scopes_left = [scope for scope in before.scopes if scopes is None or scope in scopes]
    after = prepare_token(device, role, scopes_left, made_with=access_token or before.made_with_id)
    if role == "operator":
        Device.objects.filter(pk=device.pk).update(scopes=sorted(scopes_left))
    audit_log.record(
        "device_token.rotated",
        actor=acting.actor_for_user(by),
        subject=audit_subject(device),
        owner=device.owner_id,
        role=role,
        scopes=scopes_left,
    )
    return after


@transaction.atomic
def revoke_token(device: Device, role: str, *, by: User) -> DeviceToken:
    """Revoke the token and its scopes. The device stays paired; a new token needs its owner's credentials or a new approval."""
    token = _lock_token(device, role)
    token.revoked_at = timezone.now()
    token.save(update_fields=["revoked_at"])
    if role == "operator":
        Device.objects.filter(pk=device.pk).update(scopes=[], asked_scopes=[])
    audit_log.record(
        "device_token.revoked", actor=acting.actor_for_user(by), subject=audit_subject(device), owner=device.owner_id, role=role
    )
    change_notices.notify_account_changed(device.owner_id)
    return token


def _lock_token(device: Device, role: str) -> DeviceToken:
    """Return the active token. The lock prevents other changes to the device's tokens until the transaction ends."""
    if role not in ("operator", "node"):
        raise InvalidRequest(f"unknown role {role!r}: use operator or node")
    Device.objects.select_for_update().get(pk=device.pk)
    token = find_active_token(device, role)
    if token is None:
        raise NotFound(_("The device has no token for the role %(role)s.") % {"role": role})
    return token


def record_device_use(device_pk: int, token_pk: int, address: str) -> None:
    """Record that a device is connected. Writes at most once per minute."""
    now = timezone.now()
    due = Q(last_seen_at__isnull=True) | Q(last_seen_at__lt=now - LAST_USED_UPDATE_INTERVAL)
    Device.objects.filter(due, pk=device_pk).update(last_seen_at=now, last_address=address)
    if token_pk:
        due = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - LAST_USED_UPDATE_INTERVAL)
        DeviceToken.objects.filter(due, pk=token_pk).update(last_used_at=now)


def audit_subject(device: Device) -> tuple[str, str]:
    return "device", device.fingerprint


def _digest(secret: str) -> str:
    """Plain SHA-256, as for access tokens: 256 random bits cannot be guessed."""
    return sha256(secret.encode()).hexdigest()
