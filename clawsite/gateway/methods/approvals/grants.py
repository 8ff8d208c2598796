"""Methods for grants: list and revoke them, as on the grants page."""

from typing import Any, Literal

from django.utils.translation import gettext as _
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.methods.sessions.listing import limit_to_reply
from clawsite.gateway.protocol.params import Id, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, method
from clawsite.infra import clock, db
from clawsite.infra.errors import Conflict, Forbidden, NotFound
from tools_app.approvals import grants
from tools_app.models import Grant

REQUIRED_SCOPES = (Scope.APPROVALS, Scope.ADMIN)  # the account also needs a permission, as on the page
MAX_COMMAND_LENGTH = 512  # the limit of OpenClaw's clients, in characters
MAX_ID_DIGITS = 18  # fits into an integer in every database


class ListParams(Params):
    limit: int = Field(100, ge=1, le=500)


class GrantOut(TypedDict):
    """A grant. OpenClaw's clients show a grant's cron job; here `cronJobName` has its `scope` and `subject`.

    `command` may be shortened; the grant applies to `line`, or to the programs in `entries`. A grant without an approval request
    has `by-hand` as `mintedByApprovalId`, and one for every agent has `*` as `agentId`.
    """

    grantId: str
    mintedByApprovalId: str
    agentId: str
    cronJobId: str
    cronJobName: str
    command: str
    cwd: str | None
    createdAtMs: int
    expiresAtMs: int | None
    revokedAtMs: None
    revokedBy: None
    lastUsedAtMs: int | None
    useCount: int
    usesLeft: int | None
    scope: str
    subject: str
    line: str
    entries: list[dict[str, Any]]
    givenBy: str | None


class ListAnswer(TypedDict):
    """At most as many as fit into a response of 768 KiB."""

    grants: list[GrantOut]


@method("exec.approval.grants.list", scope=REQUIRED_SCOPES, limited=LimitedTokenRule.HARMLESS)
async def list_(call: Call, params: ListParams) -> ListAnswer:
    """List grants, newest first. For users who may approve commands or view grants."""
    return await db.read(_list_grants, call.user, params.limit)


def _list_grants(user: User, limit: int) -> ListAnswer:
    if not (user.has_perm("accounts.approve_commands") or user.has_perm("tools_app.view_grant")):
        raise Forbidden(_("You don’t have permission to view grants."))
    active = Grant.objects.filter(grants.is_active_filter()).select_related("owner").order_by("-created_at", "-id")[:limit]
    return ListAnswer(grants=limit_to_reply([_to_wire(grant) for grant in active]))


def _to_wire(grant: Grant) -> GrantOut:
    scope = f"{grant.scope} {grant.subject}".strip()
    return GrantOut(
        grantId=str(grant.pk),
        mintedByApprovalId=str(grant.approval_id or "by-hand"),
        agentId=grant.agent or "*",
        cronJobId=scope,
        cronJobName=scope[:200],
        command=str(grant)[:MAX_COMMAND_LENGTH],
        cwd=grant.subject if grant.scope == Grant.Scope.DIRECTORY else None,
        createdAtMs=clock.to_ms(grant.created_at),
        expiresAtMs=clock.to_ms(grant.expires_at) if grant.expires_at else None,
        revokedAtMs=None,
        revokedBy=None,
        lastUsedAtMs=clock.to_ms(grant.last_used_at) if grant.last_used_at else None,
        useCount=grant.uses,
        usesLeft=grant.uses_left,
        scope=grant.scope,
        subject=grant.subject,
        line=grant.line,
        entries=grant.entries,
        givenBy=grant.owner.get_username() if grant.owner else None,
    )


class RevokeParams(Params):
    grant_id: Id


class RevokeAnswer(TypedDict):
    outcome: Literal["revoked", "already-revoked", "not-found"]


@method("exec.approval.grants.revoke", scope=REQUIRED_SCOPES, limited=LimitedTokenRule.HARMLESS)
async def revoke(call: Call, params: RevokeParams) -> RevokeAnswer:
    """Revoke a grant: the next matching command needs approval; running ones continue. For approvers and grant editors."""
    return await db.write(_revoke, call.user, params.grant_id, alone=True)


def _revoke(user: User, grant_id: str) -> RevokeAnswer:
    is_number = grant_id.isascii() and grant_id.isdecimal() and len(grant_id) <= MAX_ID_DIGITS
    try:
        grants.revoke_grant(int(grant_id) if is_number else 0, by=user)
    except NotFound:
        return RevokeAnswer(outcome="not-found")
    except Conflict:
        return RevokeAnswer(outcome="already-revoked")
    return RevokeAnswer(outcome="revoked")
