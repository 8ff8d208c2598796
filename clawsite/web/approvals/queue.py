"""Pending approval requests: a live list, and one request on a page. Decisions are in clawsite.web.approvals.decisions."""

from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from clawsite.infra import clock
from clawsite.infra.errors import NotFound
from clawsite.web.approvals.access import APPROVE, VIEW_ANY_SESSION, VIEW_RULES, ApprovalRequest, require_any_permission
from clawsite.web.approvals.card import build_card, build_cards, load_approvals
from clawsite.web.approvals.enable_agent import find_offer
from clawsite.web.approvals.filters import PER_PAGE, ApprovalFilters, build_choices, list_pending, paginate
from clawsite.web.approvals.labels import DURATION_CHOICES
from tools_app.approvals import requests as approval_requests
from tools_app.models import Approval

MENU_NAMES = ("for", "always")
MAX_SHOWN = 4 * PER_PAGE  # cards that one open page asks about; answered ones stay on it for a while


@require_any_permission()
@require_safe
def show_queue(request: ApprovalRequest) -> HttpResponse:
    filters = ApprovalFilters.read(request.GET)
    waiting = list_pending(request.user)
    found = filters.apply(waiting)
    total = found.count()
    rows = load_approvals(paginate(found, filters.page))
    wanted = request.GET.get("let", "")
    offer = find_offer(request.user, wanted)
    context = {
        **card_context(request),
        "cards": build_cards(request.user, rows),
        "filters": filters,
        "choices": build_choices(waiting),
        "total": total,
        "pages": -(-total // PER_PAGE),
        "earlier": filters.query(page=filters.page - 1) if filters.page > 1 else None,
        "later": filters.query(page=filters.page + 1) if filters.page * PER_PAGE < total else None,
        "query": filters.query(),
        "offer": offer,
        "may_ask_already": wanted if wanted and offer is None else "",
        "sees_all": request.user.has_perm(APPROVE) or request.user.has_perm(VIEW_ANY_SESSION),
    }
    return render(request, "approvals/queue.html", context)


@require_any_permission()
@require_safe
def live_changes(request: ApprovalRequest) -> HttpResponse:
    """What is new on the page since it was drawn: `shown` names its cards, each with the stamp it had."""
    filters = ApprovalFilters.read(request.GET)
    shown = _parse_stamps(request.GET.get("shown", ""))
    rows = load_approvals(paginate(filters.apply(list_pending(request.user)), filters.page))
    answered = shown.keys() - {row.pk for row in rows}
    rows += load_approvals(Approval.objects.for_user(request.user).filter(pk__in=answered)) if answered else []
    changed = [each for each in build_cards(request.user, rows) if shown.get(each.approval.pk) != each.stamp]
    context = {**card_context(request), "cards": changed, "query": filters.query(), "solo": request.GET.get("solo") == "1"}
    return render(request, "approvals/_cards.html", context)


@require_any_permission()
@require_safe
def count_pending(request: ApprovalRequest) -> HttpResponse:
    """How many wait, for the badge; and the newest of them, so that a notification can say who asks."""
    waiting = list_pending(request.user)
    newest = waiting.order_by("-created_at").values("id", "agent", "requester__username", "created_at").first()
    if newest is None:
        return JsonResponse({"count": 0, "newest": None})
    who = {"agent": newest["agent"], "person": newest["requester__username"]}
    told = {"id": str(newest["id"]), "askedAt": clock.to_ms(newest["created_at"]), **who}
    return JsonResponse({"count": waiting.count(), "newest": told})


@require_any_permission()
@require_safe
def show_approval(request: ApprovalRequest, pk: UUID) -> HttpResponse:
    """One question, open or answered, with all that is known of it."""
    return render(
        request, "approvals/request.html", {**card_context(request), "card": build_card(request.user, find_approval(request, pk))}
    )


@require_any_permission()
@require_safe
def show_in_chat(request: ApprovalRequest, pk: UUID) -> HttpResponse:
    """The same for the conversation it belongs to."""
    return render(
        request,
        "approvals/_chat_card.html",
        {**card_context(request), "card": build_card(request.user, find_approval(request, pk))},
    )


@require_any_permission()
@require_safe
def show_menu(request: ApprovalRequest, pk: UUID, which: str) -> HttpResponse:
    """One of the longer answers to a question of a list, as it is opened. Without a script they are on the question's own page."""
    shown = build_card(request.user, find_approval(request, pk))
    if which not in MENU_NAMES or not shown.is_open or shown.why_not or f"allow-{which}" not in shown.may:
        raise Http404
    return render(request, f"approvals/_menu_{which}.html", {**card_context(request), "card": shown})


def find_approval(request: ApprovalRequest, pk: UUID) -> Approval:
    try:
        return approval_requests.find_approval(request.user, pk)
    except NotFound as gone:
        raise Http404 from gone


def card_context(request: ApprovalRequest) -> dict[str, Any]:
    """What every card needs besides itself."""
    user = request.user
    return {
        "reader": user,
        "durations": DURATION_CHOICES,
        "may_approve": user.has_perm(APPROVE),
        "may_see_rules": user.has_perm(VIEW_RULES),
        "here": request.get_full_path() if request.method == "GET" and not request.htmx else "",
    }


def _parse_stamps(text: str) -> dict[UUID, str]:
    """id:stamp, and so on."""
    try:
        return {UUID(pk): stamp for pk, _colon, stamp in (each.partition(":") for each in text.split(",")[:MAX_SHOWN] if each)}
    except ValueError as wrong:
        raise Http404 from wrong
