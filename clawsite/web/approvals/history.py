"""Decision history: approval requests that were decided, expired or canceled, newest first."""

from django.core.exceptions import BadRequest
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from clawsite.infra import clock
from clawsite.web.approvals.access import ApprovalRequest, require_any_permission
from clawsite.web.approvals.card import build_cards, load_approvals
from clawsite.web.approvals.filters import ApprovalFilters
from clawsite.web.approvals.labels import STATUS_LABELS
from clawsite.web.formatting import to_datetime
from tools_app.models import Approval

Status = Approval.Status
PER_PAGE = 50
STATUSES_BY_FILTER = {
    "allowed": [Status.APPROVED, Status.USED],
    "denied": [Status.DENIED],
    "expired": [Status.EXPIRED],
    "void": [Status.VOID],
}
FILTER_CHOICES = (("", _("All")), *((value, STATUS_LABELS[statuses[0]]) for value, statuses in STATUSES_BY_FILTER.items()))


@require_any_permission()
@require_safe
def list_decided(request: ApprovalRequest) -> HttpResponse:
    filters, decided, by = (
        ApprovalFilters.read(request.GET),
        request.GET.get("decided", ""),
        request.GET.get("by", "").strip()[:150],
    )
    before = request.GET.get("before", "")
    if decided not in dict(FILTER_CHOICES) or not ((before.isdecimal() and len(before) < 15) or not before):
        raise BadRequest
    queryset = filters.apply(Approval.objects.for_user(request.user)).exclude(status=Status.PENDING)
    if decided:
        queryset = queryset.filter(status__in=STATUSES_BY_FILTER[decided])
    if by:
        queryset = queryset.filter(decided_by__username=by)
    if before:
        queryset = queryset.filter(decided_at__lt=to_datetime(int(before)))
    rows = load_approvals(queryset.order_by("-decided_at", "-id")[: PER_PAGE + 1])
    listed = rows[:PER_PAGE]
    older = clock.to_ms(listed[-1].decided_at) if len(rows) > PER_PAGE and listed[-1].decided_at else None
    context = {
        "cards": build_cards(request.user, listed),
        "filters": filters,
        "decided": decided,
        "by": by,
        "choices": FILTER_CHOICES,
        "older": filters.query(decided=decided, by=by, before=older) if older else "",
        "before": before,
        "narrows": filters.narrows or decided or by,
    }
    return render(request, "approvals/history.html", context)
