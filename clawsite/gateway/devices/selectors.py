"""Reading devices: what somebody may manage. One's own, and everybody's with the right to; others are not found."""

from collections import defaultdict

from clawsite.accounts.models import User
from clawsite.gateway.devices.shapes import DeviceFacts, to_device_facts, to_pair_requested
from clawsite.gateway.models import Device, DeviceToken, PairingRequest
from clawsite.gateway.protocol.device_events import PairRequested
from clawsite.infra.errors import InvalidRequest, NotFound

MAX_DEVICES = 500  # in one list


def find_device(user: User, fingerprint: str, owner: str | None = None) -> Device:
    """One's own before others'. A key that several accounts know is told apart by the name of its owner."""
    rows = Device.objects.for_user(user).active().filter(fingerprint=fingerprint).select_related("owner", "approved_by")
    if owner is not None:
        rows = rows.filter(owner__username=owner)
    found = list(rows[:2])
    mine = [device for device in found if device.owner_id == user.pk] or list(rows.filter(owner=user)[:1])
    if mine:
        return mine[0]
    if not found:
        raise NotFound(f"there is no device {fingerprint[:64]!r}")
    if len(found) > 1:
        raise InvalidRequest("several accounts know this device; name one in `owner`")
    return found[0]


def list_pending_requests(user: User, role: str = "") -> list[PairRequested]:
    rows = PairingRequest.objects.for_user(user).pending().select_related("account").order_by("-created_at")
    return [to_pair_requested(request) for request in (rows.filter(role=role) if role else rows)[:MAX_DEVICES]]


def list_paired_devices(user: User, *, nodes_only: bool = False) -> list[DeviceFacts]:
    rows = Device.objects.for_user(user).active().select_related("owner", "approved_by").order_by("-paired_at")
    devices = list((rows.filter(is_node=True) if nodes_only else rows)[:MAX_DEVICES])
    tokens = find_active_tokens(devices)
    return [to_device_facts(device, tokens[device.pk]) for device in devices]


def find_active_tokens(devices: list[Device]) -> dict[int, list[DeviceToken]]:
    found: dict[int, list[DeviceToken]] = defaultdict(list)
    for token in DeviceToken.objects.filter(device__in=devices, revoked_at__isnull=True).order_by("role"):
        found[token.device_id].append(token)
    return found
