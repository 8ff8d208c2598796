"""The user's devices on the account page, and pairing requests for users who may pair devices."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from clawsite.accounts.groups import PAIRING, scopes_of
from clawsite.accounts.models import User
from clawsite.gateway.devices import pairing
from clawsite.gateway.devices.node_commands import is_allowed_by_default
from clawsite.gateway.models import Device, PairingRequest
from clawsite.infra.errors import ClawError, NotFound
from clawsite.web.account.common import SignedInRequest, format_time_ago, redirect_to_section, scope_labels


@dataclass(frozen=True, slots=True)
class DeviceRow:
    device: Device
    may: list[str]
    seen: str


@dataclass(frozen=True, slots=True)
class PairingRow:
    request: PairingRequest
    asks: list[str]  # scope labels
    commands: list[tuple[str, bool]]  # a node's commands, and whether each is allowed by default


def device_context(user: User) -> dict[str, Any]:
    """Return the template context of the devices section."""
    devices = Device.objects.filter(owner=user).active().order_by("-paired_at")[:100]
    return {
        "devices": [DeviceRow(device, scope_labels(device.scopes), format_time_ago(device.last_seen_at)) for device in devices],
        "pairing": [_pairing_row(request) for request in _list_pending(user)],
    }


def _list_pending(user: User) -> list[PairingRequest]:
    if PAIRING not in scopes_of(user):
        return []
    return list(PairingRequest.objects.for_user(user).pending().select_related("account").order_by("created_at")[:50])


def _pairing_row(request: PairingRequest) -> PairingRow:
    commands = [(command, is_allowed_by_default(command)) for command in request.facts.get("commands", [])]
    return PairingRow(request, scope_labels(request.scopes), commands)


@require_POST
@login_required
def revoke_device(request: SignedInRequest, pk: int) -> HttpResponse:
    device = get_object_or_404(Device.objects.filter(owner=request.user).active(), pk=pk)
    pairing.remove(device, by=request.user)
    messages.success(request, _("“%s” was revoked and disconnected. It can’t connect until it is approved again.") % device)
    return redirect_to_section("devices")


@require_POST
@login_required
def approve_pairing(request: SignedInRequest, pk: str) -> HttpResponse:
    """Approve with at most the account's scopes and, for a node, only the selected commands."""
    held = scopes_of(request.user)
    commands = request.POST.getlist("commands") if "is_node" in request.POST else None

    def approve() -> str:
        pairing.approve(pk, by=request.user, ceiling=held, commands=commands)
        return _("The device is paired. This takes effect when it next connects.")

    return _decide_and_redirect(request, held, approve)


@require_POST
@login_required
def reject_pairing(request: SignedInRequest, pk: str) -> HttpResponse:
    def reject() -> str:
        pairing.reject(pk, by=request.user)
        return _("Pairing denied.")

    return _decide_and_redirect(request, scopes_of(request.user), reject)


def _decide_and_redirect(request: SignedInRequest, held: frozenset[str], decide: Callable[[], str]) -> HttpResponse:
    if PAIRING not in held:
        raise Http404
    try:
        messages.success(request, decide())
    except NotFound as error:
        raise Http404 from error
    except ClawError as error:
        messages.error(request, error.message)
    return redirect_to_section("devices")
