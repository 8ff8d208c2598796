"""What the audit log knows of. An action that is not here cannot be recorded, so a filter by these words misses nothing."""

from typing import Any

from django.utils.translation import gettext_lazy as _

ACTIONS: dict[str, Any] = {
    "call.allowed": _("Tool call allowed"),
    "call.refused": _("Tool call refused"),
    "call.ended": _("Tool call ended"),
    "approval.requested": _("Approval requested"),
    "approval.voted": _("One of two agreed"),
    "approval.decided": _("Approval decided"),
    "approval.extended": _("Approval extended"),
    "approval.expired": _("Approval expired"),
    "approval.voided": _("Approval voided"),
    "approval.used": _("Approval used"),
    "grant.made": _("Grant made"),
    "grant.used": _("Grant used"),
    "grant.revoked": _("Grant revoked"),
    "command.started": _("Command started"),
    "command.ended": _("Command ended"),
    "sign_in.ok": _("Signed in"),
    "sign_in.failed": _("Failed to sign in"),
    "sign_in.confirmed": _("Confirmed by password"),
    "sign_in.out": _("Signed out"),
    "token.made": _("Access token made"),
    "token.limited": _("Access token limited"),
    "token.revoked": _("Access token revoked"),
    "device.paired": _("Device paired"),
    "device.rejected": _("Device rejected"),
    "device.renamed": _("Device renamed"),
    "device.revoked": _("Device revoked"),
    "device_token.made": _("Device token handed out"),
    "device_token.rotated": _("Device token rotated"),
    "device_token.revoked": _("Device token revoked"),
    "node.allowed": _("Commands of a node allowed"),
    "node.invoked": _("Node invoked"),
    "node.told": _("Node told by a broadcast"),
    "node.ended": _("Node invocation ended"),
    "account.changed": _("Account changed"),
    "permissions.changed": _("Permissions changed"),
    "policy.published": _("Policy version published"),
    "exec_rules.changed": _("Command rules changed"),
    "settings.changed": _("Settings changed"),
    "admin.acted": _("Acted in the admin"),
    "hook.changed": _("Webhook changed"),
    "hook.accepted": _("Delivery to a webhook accepted"),
    "hook.refused": _("Delivery to a webhook refused"),
    "panic.stopped": _("Everything stopped"),
    "panic.resumed": _("Resumed after a stop"),
    "audit.read": _("Audit log read"),
    "audit.exported": _("Audit log exported"),
}


class UnknownAction(ValueError):
    """A word that is not in ACTIONS: a mistake in the program that recorded it."""


def words_for(action: str) -> str:
    """For people; what a later version recorded is shown as it is."""
    return str(ACTIONS.get(action, action))
