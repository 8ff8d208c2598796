"""Questions about commands in the words of OpenClaw's newer clients: one of them, its answer, and those that are closed."""

import contextlib
from datetime import datetime
from typing import Annotated, Literal, NotRequired
from uuid import UUID

from django.db.models import Q
from pydantic import Field
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.gateway.auth.limited_tokens import Limited
from clawsite.gateway.methods.approvals.requests import Answer, ById, give
from clawsite.gateway.methods.sessions.listing import fitting
from clawsite.gateway.protocol.approval_snapshots import ApprovalSnapshot, seen_by
from clawsite.gateway.protocol.approvals import in_known_words
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, Params, method
from clawsite.gateway.server.session_address import Id
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest, NotFound
from tools_app.approvals import requests as approval_requests
from tools_app.models import Approval
from tools_app.models.approval import ApprovalQuerySet

Kind = Annotated[Literal["exec", "plugin", "system-agent"], Field(description="Only commands are asked about here: exec")]


class GetAnswer(TypedDict):
    approval: ApprovalSnapshot


@method("approval.get", scope=Scope.APPROVALS, limited=Limited.HARMLESS)
async def get(call: Call, params: ById) -> GetAnswer:
    """One question, open or closed, without the plan behind it: exec.approval.get has that."""
    return GetAnswer(approval=await db.read(_snapshot, call.user, params.id))


class ResolveParams(ById, Answer):
    """As in exec.approval.resolve, with the `kind` of the question."""

    kind: Kind


class ResolveAnswer(TypedDict):
    """`applied` is false when the question has this answer already, and while somebody else must agree: then it is pending."""

    applied: bool
    approval: ApprovalSnapshot


@method("approval.resolve", scope=Scope.APPROVALS, limited=Limited.REFUSED)
async def resolve(call: Call, params: ResolveParams) -> ResolveAnswer:
    """Answer a question. The first answer counts; another one gets CONFLICT and is told whose it was. The same again is fine."""
    return await db.write(_resolved, call.user, params, alone=True)


def _resolved(user: User, params: ResolveParams) -> ResolveAnswer:
    if params.kind != "exec":
        with in_known_words():
            raise NotFound(f"nobody is asked about anything of the kind {params.kind}")
    is_new = give(user, params.id, params)
    told = _snapshot(user, params.id)
    return ResolveAnswer(applied=is_new and told["status"] != "pending", approval=told)


def _snapshot(user: User, approval_id: str) -> ApprovalSnapshot:
    with in_known_words():
        return seen_by(user, approval_requests.find(user, approval_id))


class HistoryParams(Params):
    """`cursor` is the `nextCursor` of the page before."""

    cursor: Id | None = None
    limit: int = Field(50, ge=1, le=100)
    kind: Kind = "exec"


class HistoryAnswer(TypedDict):
    """A reply holds at most 768 KiB; there is no `nextCursor` at the end."""

    items: list[ApprovalSnapshot]
    nextCursor: NotRequired[str]


@method("approval.history", scope=Scope.APPROVALS, limited=Limited.HARMLESS)
async def history(call: Call, params: HistoryParams) -> HistoryAnswer:
    """The questions that are closed, the last one first: answered, expired, or void because nothing was left to decide."""
    return await db.read(_history, call.user, params)


def _history(user: User, params: HistoryParams) -> HistoryAnswer:
    if params.kind != "exec":
        return HistoryAnswer(items=[])
    closed = Approval.objects.for_user(user).exclude(status=Approval.Status.PENDING)
    if params.cursor is not None:
        at, pk = _place(closed, params.cursor)
        closed = closed.filter(Q(decided_at__lt=at) | Q(decided_at=at, pk__lt=pk))
    rows = closed.select_related("session", "decided_by").order_by("-decided_at", "-id")[: params.limit + 1]
    items = [seen_by(user, row) for row in rows]
    page = fitting(items[: params.limit])
    return HistoryAnswer(items=page, nextCursor=page[-1]["id"]) if len(page) < len(items) else HistoryAnswer(items=page)


def _place(closed: ApprovalQuerySet, cursor: str) -> tuple[datetime | None, UUID]:
    """Behind which the next page begins: the moment of the last one that was told, which never changes, and its id."""
    with contextlib.suppress(ValueError):
        if found := closed.filter(pk=UUID(cursor)).values_list("decided_at", "pk").first():
            return found
    raise InvalidRequest("this cursor is none of this list; send the nextCursor of the page before, or none to begin anew")
