"""Questions that were answered, or never were: by whom, when, and what came of it. Newest first."""

from django.core.exceptions import BadRequest
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from clawsite.infra import clock
from clawsite.web.approvals.access import ApprovalRequest, for_people
from clawsite.web.approvals.card import cards, read
from clawsite.web.approvals.filters import Filters
from clawsite.web.approvals.labels import BADGE
from clawsite.web.formatting import moment
from tools_app.models import Approval

Status = Approval.Status
PER_PAGE = 50
MEANING = {"allowed": [Status.APPROVED, Status.USED], "denied": [Status.DENIED], "expired": [Status.EXPIRED], "void": [Status.VOID]}
DECIDED = (("", _("All")), *((value, BADGE[meant[0]]) for value, meant in MEANING.items()))


@for_people()
@require_safe
def history(request: ApprovalRequest) -> HttpResponse:
    filters, decided, by = Filters.read(request.GET), request.GET.get("decided", ""), request.GET.get("by", "").strip()[:150]
    before = request.GET.get("before", "")
    if decided not in dict(DECIDED) or not ((before.isdecimal() and len(before) < 15) or not before):
        raise BadRequest
    found = filters.apply(Approval.objects.for_user(request.user)).exclude(status=Status.PENDING)
    if decided:
        found = found.filter(status__in=MEANING[decided])
    if by:
        found = found.filter(decided_by__username=by)
    if before:
        found = found.filter(decided_at__lt=moment(int(before)))
    rows = read(found.order_by("-decided_at", "-id")[: PER_PAGE + 1])
    listed = rows[:PER_PAGE]
    older = clock.to_ms(listed[-1].decided_at) if len(rows) > PER_PAGE and listed[-1].decided_at else None
    context = {
        "cards": cards(request.user, listed),
        "filters": filters,
        "decided": decided,
        "by": by,
        "choices": DECIDED,
        "older": filters.query(decided=decided, by=by, before=older) if older else "",
        "before": before,
        "narrows": filters.narrows or decided or by,
    }
    return render(request, "approvals/history.html", context)
