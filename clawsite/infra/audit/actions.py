"""The actions of the audit log and their labels. Only these can be recorded, so filtering by them misses nothing."""

from typing import Any

from django.utils.translation import gettext_lazy as _

ACTIONS: dict[str, Any] = {
    "call.allowed": _("Tool call allowed"),
    "call.refused": _("Tool call denied"),
    "call.ended": _("Tool call ended"),
    "approval.requested": _("Approval requested"),
    "approval.voted": _("First of two approvals given"),
    "approval.decided": _("Approval decided"),
    "approval.extended": _("Approval extended"),
    "approval.expired": _("Approval expired"),
    "approval.voided": _("Approval canceled"),
    "approval.rebound": _("Approval bound to the same plan with a new hash"),
    "approval.used": _("Approval used"),
    "grant.made": _("Grant created"),
    "grant.used": _("Grant used"),
    "grant.revoked": _("Grant revoked"),
    "command.started": _("Command started"),
    "command.ended": _("Command ended"),
    "sign_in.ok": _("Signed in"),
    "sign_in.failed": _("Failed to sign in"),
    "sign_in.confirmed": _("Password confirmed"),
    "sign_in.out": _("Signed out"),
    "token.made": _("Access token created"),
    "token.limited": _("Access token limited"),
    "token.revoked": _("Access token revoked"),
    "device.paired": _("Device paired"),
    "device.rejected": _("Device pairing denied"),
    "device.renamed": _("Device renamed"),
    "device.revoked": _("Device revoked"),
    "device_token.made": _("Device token issued"),
    "device_token.rotated": _("Device token rotated"),
    "device_token.revoked": _("Device token revoked"),
    "node.allowed": _("Node commands allowed"),
    "node.invoked": _("Node invoked"),
    "node.told": _("Broadcast sent to node"),
    "node.ended": _("Node invocation ended"),
    "account.changed": _("Account changed"),
    "permissions.changed": _("Permissions changed"),
    "policy.published": _("Policy version published"),
    "exec_rules.changed": _("Exec rules changed"),
    "settings.changed": _("Settings changed"),
    "admin.acted": _("Action in the admin"),
    "hook.changed": _("Webhook changed"),
    "hook.accepted": _("Webhook delivery accepted"),
    "hook.refused": _("Webhook delivery rejected"),
    "panic.stopped": _("Everything frozen"),
    "panic.resumed": _("Resumed after a freeze"),
    "audit.read": _("Audit log read"),
    "audit.exported": _("Audit log exported"),
}


class UnknownAction(ValueError):
    """The action is not in ACTIONS: a bug in the code that recorded it."""


def label_for(action: str) -> str:
    """Return the translated label. An action recorded by a later version is returned as it is."""
    return str(ACTIONS.get(action, action))
