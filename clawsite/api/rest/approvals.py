"""Questions about commands over REST: those one may see, one of them, and an answer."""

from typing import Annotated, Any, Literal
from uuid import UUID

from django.db.models import Q
from ninja import Query, Router

from clawsite.accounts.models import User
from clawsite.api.http.pagination import CursorText, Limit, Page, decode_cursor, encode_cursor, parse_time
from clawsite.api.http.permissions import ApiRequest, RequireScope
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule
from clawsite.gateway.protocol.approvals import Answer, ApprovalRecord, decide_and_read, find_record, list_records
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
    status: Annotated[StatusFilter, Query(description="Which ones; `pending` are the open ones")] = "pending",
) -> Any:
    """Questions, oldest first: all of them for who may approve, those of one's own sessions for everybody else."""
    return await db.read(_page, request.auth.user, decode_cursor(cursor, parse_time, UUID), limit, status)


def _page(user: User, place: list[Any] | None, limit: int, status: str) -> Page[ApprovalRecord]:
    found = Approval.objects.for_user(user).order_by("created_at", "id")
    if status != "all":
        found = found.filter(status=status)
    if place:
        at, pk = place
        found = found.filter(Q(created_at__gt=at) | Q(created_at=at, pk__gt=pk))
    places = list(found.values_list("created_at", "pk")[: limit + 1])
    following = encode_cursor(places[limit - 1][0].isoformat(), str(places[limit - 1][1])) if len(places) > limit else None
    return {"items": list_records(user, found, limit=limit), "next": following}


@router.get("/approvals/{approval}", response=ApprovalRecord, auth=RequireScope(Scope.READ, Scope.APPROVALS))
async def get_approval(request: ApiRequest, approval: UUID) -> Any:
    """One question, open or closed."""
    return await db.read(find_record, request.auth.user, str(approval))


@router.post(
    "/approvals/{approval}/decision", response=ApprovalRecord, auth=RequireScope(Scope.APPROVALS, limited=LimitedTokenRule.REFUSED)
)
async def decide_approval(request: ApiRequest, approval: UUID, body: Answer) -> Any:
    """Answer a question. The first answer counts; another one is a conflict and is told whose it was. The same again is fine."""
    return await db.write(decide_and_read, request.auth.user, str(approval), body, alone=True)
