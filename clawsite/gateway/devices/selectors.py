"""Read the devices a user may manage: their own, or all with the permission. Other devices are reported as not found."""

from collections import defaultdict

from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.gateway.devices.shapes import DeviceFacts, to_device_facts, to_pair_requested
from clawsite.gateway.models import Device, DeviceToken, PairingRequest
from clawsite.gateway.protocol.events.devices import PairRequested
from clawsite.infra.errors import InvalidRequest, NotFound

MAX_DEVICES = 500  # in one list


def find_device(user: User, fingerprint: str, owner: str | None = None) -> Device:
    """Find a device, preferring the user's own. If several accounts have paired the same key, `owner` selects one."""
    rows = Device.objects.for_user(user).active().filter(fingerprint=fingerprint).select_related("owner", "approved_by")
    if owner is not None:
        rows = rows.filter(owner__username=owner)
    matches = list(rows[:2])
    own = [device for device in matches if device.owner_id == user.pk] or list(rows.filter(owner=user)[:1])
    if own:
        return own[0]
    if not matches:
        raise NotFound(_("Device not found: %(device)s") % {"device": fingerprint[:64]})
    if len(matches) > 1:
        raise InvalidRequest(_("Several accounts have paired this device. Name one in `owner`."))
    return matches[0]


def list_pending_requests(user: User, role: str = "") -> list[PairRequested]:
    rows = PairingRequest.objects.for_user(user).pending().select_related("account").order_by("-created_at")
    return [to_pair_requested(request) for request in (rows.filter(role=role) if role else rows)[:MAX_DEVICES]]


def list_paired_devices(user: User, *, nodes_only: bool = False) -> list[DeviceFacts]:
    rows = Device.objects.for_user(user).active().select_related("owner", "approved_by").order_by("-paired_at")
    devices = list((rows.filter(is_node=True) if nodes_only else rows)[:MAX_DEVICES])
    tokens = find_active_tokens(devices)
    return [to_device_facts(device, tokens[device.pk]) for device in devices]


def find_active_tokens(devices: list[Device]) -> dict[int, list[DeviceToken]]:
    tokens_by_device: dict[int, list[DeviceToken]] = defaultdict(list)
    for token in DeviceToken.objects.filter(device__in=devices, revoked_at__isnull=True).order_by("role"):
        tokens_by_device[token.device_id].append(token)
    return tokens_by_device
