"""Approval requests over REST: list, get, decide."""

from typing import Annotated, Any, Literal
from uuid import UUID

from django.db.models import Q
from ninja import Query, Router

from clawsite.accounts.models import User
from clawsite.api.http.pagination import CursorText, Limit, Page, decode_cursor, encode_cursor, parse_time
from clawsite.api.http.permissions import ApiRequest, RequireScope
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.protocol.approvals.decisions import Answer, decide_and_read
from clawsite.gateway.protocol.approvals.records import ApprovalRecord, find_record, list_records
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra import db
from tools_app.models import Approval

router = Router(tags=["approvals"])

StatusFilter = Literal["pending", "approved", "denied", "expired", "void", "used", "all"]


@router.get("/approvals", response=Page[ApprovalRecord], auth=RequireScope(Scope.READ, Scope.APPROVALS))
async def list_approvals(
    request: ApiRequest,
    limit: Limit = 50,
    cursor: CursorText = "",
    status: Annotated[StatusFilter, Query(description="Filter by status")] = "pending",
) -> Any:
    """List approval requests, oldest first. Approvers see all of them, other users those of their own sessions."""
    return await db.read(_page, request.auth.user, decode_cursor(cursor, parse_time, UUID), limit, status)


def _page(user: User, position: list[Any] | None, limit: int, status: str) -> Page[ApprovalRecord]:
    approvals = Approval.objects.for_user(user).order_by("created_at", "id")
    if status != "all":
        approvals = approvals.filter(status=status)
    if position:
        at, pk = position
        approvals = approvals.filter(Q(created_at__gt=at) | Q(created_at=at, pk__gt=pk))
    keys = list(approvals.values_list("created_at", "pk")[: limit + 1])
    next_cursor = encode_cursor(keys[limit - 1][0].isoformat(), str(keys[limit - 1][1])) if len(keys) > limit else None
    return {"items": list_records(user, approvals, limit=limit), "next": next_cursor}


@router.get("/approvals/{approval}", response=ApprovalRecord, auth=RequireScope(Scope.READ, Scope.APPROVALS))
async def get_approval(request: ApiRequest, approval: UUID) -> Any:
    """Get an approval request, pending or decided."""
    return await db.read(find_record, request.auth.user, str(approval))


@router.post(
    "/approvals/{approval}/decision", response=ApprovalRecord, auth=RequireScope(Scope.APPROVALS, limited=LimitedTokenRule.REFUSED)
)
async def decide_approval(request: ApiRequest, approval: UUID, body: Answer) -> Any:
    """Decide an approval request. The first decision counts.

    A different decision gets a conflict that says who decided; repeating the same one succeeds.
    """
    return await db.write(decide_and_read, request.auth.user, str(approval), body, alone=True)
