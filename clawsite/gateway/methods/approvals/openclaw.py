"""Approval requests in the form of OpenClaw's newer clients: get one, decide it, and list closed ones."""

import contextlib
from datetime import datetime
from typing import Annotated, Literal, NotRequired
from uuid import UUID

from django.db.models import Q
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.methods.approvals.requests import ById
from clawsite.gateway.methods.sessions.listing import limit_to_reply
from clawsite.gateway.protocol.approvals.decisions import Answer, decide
from clawsite.gateway.protocol.approvals.records import openclaw_errors
from clawsite.gateway.protocol.approvals.snapshots import ApprovalSnapshot, snapshot_for
from clawsite.gateway.protocol.params import Id, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, method
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest, NotFound
from tools_app.approvals import requests as approval_requests
from tools_app.models import Approval
from tools_app.models.approval import ApprovalQuerySet

ApprovalKind = Annotated[Literal["exec", "plugin", "system-agent"], Field(description="Only commands need approval here: exec")]


class GetAnswer(TypedDict):
    approval: ApprovalSnapshot


@method("approval.get", scope=Scope.APPROVALS, limited=LimitedTokenRule.HARMLESS)
async def get(call: Call, params: ById) -> GetAnswer:
    """Return an approval request, pending or closed, without its plan, which exec.approval.get returns."""
    return GetAnswer(approval=await db.read(_find_snapshot, call.user, params.id))


class ResolveParams(ById, Answer):
    """As in exec.approval.resolve, with the `kind` of the request."""

    kind: ApprovalKind


class ResolveAnswer(TypedDict):
    """`applied` is false if the request already has this decision, or is still pending because another approver must agree."""

    applied: bool
    approval: ApprovalSnapshot


@method("approval.resolve", scope=Scope.APPROVALS, limited=LimitedTokenRule.REFUSED)
async def resolve(call: Call, params: ResolveParams) -> ResolveAnswer:
    """Decide an approval request. The first decision counts; a different one gets a CONFLICT that says who decided. Idempotent."""
    return await db.write(_resolve, call.user, params, alone=True)


def _resolve(user: User, params: ResolveParams) -> ResolveAnswer:
    if params.kind != "exec":
        with openclaw_errors():
            raise NotFound(f"unknown approval kind: {params.kind}")
    is_new = decide(user, params.id, params)
    snapshot = _find_snapshot(user, params.id)
    return ResolveAnswer(applied=is_new and snapshot["status"] != "pending", approval=snapshot)


def _find_snapshot(user: User, approval_id: str) -> ApprovalSnapshot:
    with openclaw_errors():
        return snapshot_for(user, approval_requests.find_approval(user, approval_id))


class HistoryParams(Params):
    """`cursor` is the `nextCursor` of the previous page."""

    cursor: Id | None = None
    limit: int = Field(50, ge=1, le=100)
    kind: ApprovalKind = "exec"


class HistoryAnswer(TypedDict):
    """A response has at most 768 KiB; the last page has no `nextCursor`."""

    items: list[ApprovalSnapshot]
    nextCursor: NotRequired[str]


@method("approval.history", scope=Scope.APPROVALS, limited=LimitedTokenRule.HARMLESS)
async def history(call: Call, params: HistoryParams) -> HistoryAnswer:
    """List closed approval requests, latest first: decided, expired or canceled."""
    return await db.read(_list_history, call.user, params)


def _list_history(user: User, params: HistoryParams) -> HistoryAnswer:
    if params.kind != "exec":
        return HistoryAnswer(items=[])
    closed = Approval.objects.for_user(user).exclude(status=Approval.Status.PENDING)
    if params.cursor is not None:
        at, pk = _parse_cursor(closed, params.cursor)
        closed = closed.filter(Q(decided_at__lt=at) | Q(decided_at=at, pk__lt=pk))
    rows = closed.select_related("session", "decided_by").order_by("-decided_at", "-id")[: params.limit + 1]
    items = [snapshot_for(user, row) for row in rows]
    page = limit_to_reply(items[: params.limit])
    return HistoryAnswer(items=page, nextCursor=page[-1]["id"]) if len(page) < len(items) else HistoryAnswer(items=page)


def _parse_cursor(closed: ApprovalQuerySet, cursor: str) -> tuple[datetime | None, UUID]:
    """Return where the next page starts: the decision time of the last request on the page, which never changes, and its ID."""
    with contextlib.suppress(ValueError):
        if row := closed.filter(pk=UUID(cursor)).values_list("decided_at", "pk").first():
            return row
    raise InvalidRequest("invalid cursor: send the nextCursor of the previous page, or none to start from the beginning")
