"""The four groups, and what an account may do on the gateway. The groups are ours; others may be added in the admin."""

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

# Approving is nobody's by-product: an operator who should also approve is put in both groups.
GATEWAY_PERMISSIONS = {
    OPERATOR: ("administer_gateway", "pair_devices", "manage_any_device"),
    APPROVER: ("approve_commands",),
    USER: ("use_gateway",),
    AUDITOR: ("view_any_session",),
}

# Running the installation does not need reading what people write: that is the auditor's.
PRIVATE_CONTENT = Q(
    content_type__app_label="sessions_app", content_type__model__in=["transcriptentry", "event", "outbox", "systemevent"]
)
PRIVATE_CONTENT |= Q(content_type__app_label="tools_app", content_type__model__in=["commandinput", "commandoutput"])

# What happened is not edited, by nobody: questions and votes are answered by people who may approve, commands are made by workers.
# A grant is taken back and stays in the list.
TOOL_HISTORY = Q(content_type__app_label="tools_app", content_type__model__in=["approval", "approvalvote", "command"])
TOOL_HISTORY &= ~Q(codename__startswith="view_")
TOOL_HISTORY |= Q(content_type__app_label="tools_app", codename="delete_grant")
TOOL_HISTORY |= Q(content_type__app_label="connectors", content_type__model="hookdelivery") & ~Q(codename__startswith="view_")
# Devices are paired, revoked and invoked by services, which record it; no form writes their rows.
DEVICES = Q(content_type__model__in=["device", "devicetoken", "pairingrequest", "nodeinvocation"])
TOOL_HISTORY |= Q(content_type__app_label="gateway") & DEVICES & ~Q(codename__startswith="view_")

# Those whose doing is recorded do not look over the record.
AUDIT = Q(content_type__app_label="infra", content_type__model="auditentry")

# Tables of Django's own that hold other people's cookies, or nothing to decide.
UNMANAGED_APPS = ("admin", "contenttypes", "sessions")


def scopes_of(user: User) -> frozenset[str]:
    """What the account may do now, read from its permissions; nothing when it is not active."""
    if not user.is_active:
        return frozenset()
    return frozenset(scope for permission, scopes in SCOPES_BY_PERMISSION.items() if user.has_perm(permission) for scope in scopes)


def install_groups(using: str, **_signal: Any) -> None:
    """Give each group exactly its permissions, after every migrate: what a new version adds is there, what it drops is gone."""
    custom = Q(content_type__app_label="accounts", content_type__model="user")
    tables = ~Q(content_type__app_label__in=UNMANAGED_APPS) & Q(codename__regex=r"^(add|change|delete|view)_")
    looking = ~Q(content_type__app_label__in=UNMANAGED_APPS) & Q(codename__startswith="view_")
    for name, codenames in GATEWAY_PERMISSIONS.items():
        wanted = custom & Q(codename__in=codenames)
        if name == OPERATOR:
            wanted |= tables & ~Q(codename="view_any_session") & ~PRIVATE_CONTENT & ~AUDIT & ~TOOL_HISTORY
        if name == AUDITOR:
            wanted |= looking
        group, _created = Group.objects.using(using).get_or_create(name=name)
        group.permissions.set(Permission.objects.using(using).filter(wanted))
