"""Admin pages for devices, pairing requests and node invocations. All writes go through services."""

from collections.abc import Iterable
from typing import cast

from django.contrib import admin
from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from clawsite.accounts.groups import scopes_of
from clawsite.accounts.models import User
from clawsite.gateway.devices import pairing
from clawsite.gateway.models import Device, DeviceToken, NodeInvocation, PairingRequest
from clawsite.gateway.models.device import MANAGE_ANY_DEVICE
from clawsite.infra.admin.actions import ActionPreview, with_confirmation
from clawsite.infra.admin.base import PageLink, ReadOnlyAdmin, ReadOnlyInline, RelatedRows
from clawsite.infra.admin.display import badge_column, link_column


def _editor(request: HttpRequest) -> User:
    return cast(User, request.user)  # the admin only admits signed-in users


def _may_manage(request: HttpRequest) -> bool:
    return request.user.has_perm(MANAGE_ANY_DEVICE) and request.user.has_perm("accounts.pair_devices")


class TokenInline(ReadOnlyInline):
    model = DeviceToken
    fields = ["role", "scopes", "created_at", "issued_at", "last_used_at", "revoked_at"]
    readonly_fields = ["role", "scopes", "created_at", "issued_at", "last_used_at", "revoked_at"]


def _preview_revoke(request: HttpRequest, device: Device) -> ActionPreview:
    if device.revoked_at:
        return ActionPreview(_("Already revoked"), acts=False)
    return ActionPreview(_("Will be revoked along with its tokens"))


@admin.register(Device)
class DeviceAdmin(ReadOnlyAdmin):
    when_empty = _(
        "Devices can’t be added here. A program with its own key pair connects with an account’s access token, or requests "
        "pairing and waits under Pairing requests."
    )
    list_display = [
        "__str__",
        link_column("owner", _("owner")),
        "is_operator",
        "is_node",
        "platform",
        "client_id",
        "last_seen_at",
        "last_address",
        "paired_at",
        "revoked_at",
    ]
    list_filter = ["is_operator", "is_node", "revoked_at", "paired_at"]
    search_fields = ["fingerprint", "display_name", "client_id", "owner__username"]
    list_select_related = ["owner"]
    date_hierarchy = "paired_at"
    ordering = ["-paired_at"]
    actions = ["revoke"]
    inlines = [TokenInline]
    fieldsets = [
        (None, {"fields": [("display_name", "owner"), ("fingerprint", "public_key")]}),
        (_("About"), {"fields": [("platform", "device_family", "model_identifier"), ("client_id", "client_version")]}),
        (_("Permissions"), {"fields": [("is_operator", "is_node"), ("scopes", "asked_scopes"), "allowed_commands", "declared"]}),
        (_("Time"), {"fields": [("paired_at", "approved_by"), ("last_seen_at", "last_address"), "revoked_at"]}),
    ]

    def related_links(self, row: Device) -> Iterable[RelatedRows | PageLink]:
        yield RelatedRows(_("Invocations"), NodeInvocation, {"device": row.pk})

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return _may_manage(request)

    @with_confirmation(
        label=_("Revoke"),
        warning=_("Their connections are closed immediately. They can’t connect until they are approved again."),
        permission="revoke",
        preview=_preview_revoke,
    )
    @transaction.atomic
    def revoke(self, request: HttpRequest, selected: list[Device]) -> str:
        for device in selected:
            pairing.remove(device, by=_editor(request))
        return gettext("Revoked: %(count)d") % {"count": len(selected)}


def _preview_approve(request: HttpRequest, pairing_request: PairingRequest) -> ActionPreview:
    if not pairing_request.is_open:
        return ActionPreview(_("No longer pending"), acts=False)
    if pairing_request.account:
        return ActionPreview(gettext("Will become a device of %(name)s") % {"name": pairing_request.account.get_username()})
    return ActionPreview(_("Will become your device"))


def _preview_reject(request: HttpRequest, pairing_request: PairingRequest) -> ActionPreview:
    return ActionPreview(_("Will be denied")) if pairing_request.is_open else ActionPreview(_("No longer pending"), acts=False)


@admin.register(PairingRequest)
class PairingRequestAdmin(ReadOnlyAdmin):
    when_empty = _(
        "A device or node that connects without a token is listed here until it is approved, or until five minutes after "
        "its last attempt."
    )
    list_display = [
        "created_at",
        "__str__",
        "role",
        badge_column("status", _("status"), {"pending": "warning", "approved": "success", "rejected": "danger"}),
        "reason",
        link_column("account", _("account")),
        "address",
        "expires_at",
        link_column("decided_by", _("decided by")),
    ]
    list_filter = ["status", "role", "reason", "created_at"]
    search_fields = ["fingerprint", "address", "account__username"]
    list_select_related = ["account", "decided_by"]
    date_hierarchy = "created_at"
    ordering = ["-created_at"]
    actions = ["approve", "reject"]

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return _may_manage(request)

    @with_confirmation(
        label=_("Approve"),
        warning=_(
            "The device reconnects automatically. It gets the scopes it requested, limited to those that both its owner "
            "and you have."
        ),
        permission="decide",
        preview=_preview_approve,
    )
    @transaction.atomic
    def approve(self, request: HttpRequest, selected: list[PairingRequest]) -> str:
        editor = _editor(request)
        for pairing_request in selected:
            pairing.approve(str(pairing_request.pk), by=editor, ceiling=scopes_of(editor))
        return gettext("Approved: %(count)d") % {"count": len(selected)}

    @with_confirmation(
        label=_("Deny"),
        warning=_("The pairing request will be denied. The device can request again."),
        permission="decide",
        preview=_preview_reject,
    )
    @transaction.atomic
    def reject(self, request: HttpRequest, selected: list[PairingRequest]) -> str:
        for pairing_request in selected:
            pairing.reject(str(pairing_request.pk), by=_editor(request))
        return gettext("Denied: %(count)d") % {"count": len(selected)}


@admin.register(NodeInvocation)
class NodeInvocationAdmin(ReadOnlyAdmin):
    when_empty = _("When a program invokes a paired node, the invocation and its result are listed here.")
    list_display = [
        "created_at",
        link_column("device", _("node")),
        "command",
        badge_column("status", _("status"), {"pending": "info", "sent": "info", "done": "success", "failed": "danger"}),
        "error_code",
        link_column("owner", _("requested by")),
        "ended_at",
    ]
    list_filter = ["status", "created_at"]
    search_fields = ["id", "command", "device__fingerprint", "device__display_name", "owner__username"]
    list_select_related = ["device", "owner"]
    date_hierarchy = "created_at"
    ordering = ["-created_at"]
    private_fields = ("params_json", "result_json", "error_message")
