"""The four built-in groups, and what an account can do on the gateway. More groups can be added in the admin."""

from typing import Any

from django.contrib.auth.models import Group, Permission
from django.db.models import Q

from clawsite.accounts.models import User

READ = "operator.read"
WRITE = "operator.write"
ADMIN = "operator.admin"
APPROVALS = "operator.approvals"
PAIRING = "operator.pairing"
SCOPES = frozenset({READ, WRITE, ADMIN, APPROVALS, PAIRING})

SCOPES_BY_PERMISSION = {
    "accounts.use_gateway": (READ, WRITE),
    "accounts.view_any_session": (READ,),
    "accounts.administer_gateway": (ADMIN,),
    "accounts.approve_commands": (APPROVALS,),
    "accounts.pair_devices": (PAIRING,),
}

OPERATOR = "Operator"
APPROVER = "Approver"
USER = "User"
AUDITOR = "Auditor"

# Approving is always granted explicitly: an operator who should also approve is added to both groups.
GATEWAY_PERMISSIONS = {
    OPERATOR: ("administer_gateway", "pair_devices", "manage_any_device"),
    APPROVER: ("approve_commands",),
    USER: ("use_gateway",),
    AUDITOR: ("view_any_session",),
}

# Operators run the server without reading users' messages; only auditors can read them.
PRIVATE_CONTENT = Q(
    content_type__app_label="sessions_app", content_type__model__in=["transcriptentry", "event", "outbox", "systemevent"]
)
PRIVATE_CONTENT |= Q(content_type__app_label="tools_app", content_type__model__in=["commandinput", "commandoutput"])

# Records are never edited: approvers decide requests, and workers create commands. Revoked grants stay in the list.
TOOL_HISTORY = Q(content_type__app_label="tools_app", content_type__model__in=["approval", "approvalvote", "command"])
TOOL_HISTORY &= ~Q(codename__startswith="view_")
TOOL_HISTORY |= Q(content_type__app_label="tools_app", codename="delete_grant")
TOOL_HISTORY |= Q(content_type__app_label="connectors", content_type__model="hookdelivery") & ~Q(codename__startswith="view_")
# Devices are paired, revoked and invoked through services, which record this; no form writes their rows.
DEVICES = Q(content_type__model__in=["device", "devicetoken", "pairingrequest", "nodeinvocation"])
TOOL_HISTORY |= Q(content_type__app_label="gateway") & DEVICES & ~Q(codename__startswith="view_")

# Operators can't read the audit log, because it records their own actions.
AUDIT = Q(content_type__app_label="infra", content_type__model="auditentry")

# Django's own tables: they contain session cookies, or have nothing to manage.
UNMANAGED_APPS = ("admin", "contenttypes", "sessions")


def scopes_of(user: User) -> frozenset[str]:
    """Return the account's current scopes, from its permissions; empty if it is inactive."""
    if not user.is_active:
        return frozenset()
    return frozenset(scope for permission, scopes in SCOPES_BY_PERMISSION.items() if user.has_perm(permission) for scope in scopes)


def install_groups(using: str, **_signal: Any) -> None:
    """After every migrate, give each group exactly its permissions: add new ones and remove those dropped."""
    custom = Q(content_type__app_label="accounts", content_type__model="user")
    tables = ~Q(content_type__app_label__in=UNMANAGED_APPS) & Q(codename__regex=r"^(add|change|delete|view)_")
    view_only = ~Q(content_type__app_label__in=UNMANAGED_APPS) & Q(codename__startswith="view_")
    for name, codenames in GATEWAY_PERMISSIONS.items():
        permissions = custom & Q(codename__in=codenames)
        if name == OPERATOR:
            permissions |= tables & ~Q(codename="view_any_session") & ~PRIVATE_CONTENT & ~AUDIT & ~TOOL_HISTORY
        if name == AUDITOR:
            permissions |= view_only
        group, _created = Group.objects.using(using).get_or_create(name=name)
        group.permissions.set(Permission.objects.using(using).filter(permissions))
