"""Pending approval requests: a live list, and a page for each request. Decisions are in clawsite.web.approvals.decisions."""

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
MAX_SHOWN = 4 * PER_PAGE  # cards per refresh of an open page; decided cards stay on it for a while


@require_any_permission()
@require_safe
def show_queue(request: ApprovalRequest) -> HttpResponse:
    filters = ApprovalFilters.read(request.GET)
    pending = list_pending(request.user)
    matches = filters.apply(pending)
    total = matches.count()
    rows = load_approvals(paginate(matches, filters.page))
    agent = request.GET.get("let", "")
    offer = find_offer(request.user, agent)
    context = {
        **card_context(request),
        "cards": build_cards(request.user, rows),
        "filters": filters,
        "choices": build_choices(pending),
        "total": total,
        "pages": -(-total // PER_PAGE),
        "earlier": filters.query(page=filters.page - 1) if filters.page > 1 else None,
        "later": filters.query(page=filters.page + 1) if filters.page * PER_PAGE < total else None,
        "query": filters.query(),
        "offer": offer,
        "may_ask_already": agent if agent and offer is None else "",
        "sees_all": request.user.has_perm(APPROVE) or request.user.has_perm(VIEW_ANY_SESSION),
    }
    return render(request, "approvals/queue.html", context)


@require_any_permission()
@require_safe
def live_changes(request: ApprovalRequest) -> HttpResponse:
    """Return the cards that changed since the page was rendered. `shown` lists its cards with their stamps."""
    filters = ApprovalFilters.read(request.GET)
    shown = _parse_stamps(request.GET.get("shown", ""))
    rows = load_approvals(paginate(filters.apply(list_pending(request.user)), filters.page))
    decided = shown.keys() - {row.pk for row in rows}
    rows += load_approvals(Approval.objects.for_user(request.user).filter(pk__in=decided)) if decided else []
    changed = [each for each in build_cards(request.user, rows) if shown.get(each.approval.pk) != each.stamp]
    context = {**card_context(request), "cards": changed, "query": filters.query(), "solo": request.GET.get("solo") == "1"}
    return render(request, "approvals/_cards.html", context)


@require_any_permission()
@require_safe
def count_pending(request: ApprovalRequest) -> HttpResponse:
    """Return the number of pending requests for the badge, and the newest one so that a notification can name the requester."""
    pending = list_pending(request.user)
    newest = pending.order_by("-created_at").values("id", "agent", "requester__username", "created_at").first()
    if newest is None:
        return JsonResponse({"count": 0, "newest": None})
    requested_by = {"agent": newest["agent"], "person": newest["requester__username"]}
    latest = {"id": str(newest["id"]), "askedAt": clock.to_ms(newest["created_at"]), **requested_by}
    return JsonResponse({"count": pending.count(), "newest": latest})


@require_any_permission()
@require_safe
def show_approval(request: ApprovalRequest, pk: UUID) -> HttpResponse:
    """Show one request, pending or decided, with full details."""
    return render(
        request, "approvals/request.html", {**card_context(request), "card": build_card(request.user, find_approval(request, pk))}
    )


@require_any_permission()
@require_safe
def show_in_chat(request: ApprovalRequest, pk: UUID) -> HttpResponse:
    """Render the request for its chat."""
    return render(
        request,
        "approvals/_chat_card.html",
        {**card_context(request), "card": build_card(request.user, find_approval(request, pk))},
    )


@require_any_permission()
@require_safe
def show_menu(request: ApprovalRequest, pk: UUID, which: str) -> HttpResponse:
    """Render a decision menu of a listed request when it is opened. Without JavaScript, the menus are on the request's page."""
    card = build_card(request.user, find_approval(request, pk))
    if which not in MENU_NAMES or not card.is_open or card.why_not or f"allow-{which}" not in card.may:
        raise Http404
    return render(request, f"approvals/_menu_{which}.html", {**card_context(request), "card": card})


def find_approval(request: ApprovalRequest, pk: UUID) -> Approval:
    try:
        return approval_requests.find_approval(request.user, pk)
    except NotFound as error:
        raise Http404 from error


def card_context(request: ApprovalRequest) -> dict[str, Any]:
    """Return the template context that all cards share."""
    user = request.user
    return {
        "reader": user,
        "durations": DURATION_CHOICES,
        "may_approve": user.has_perm(APPROVE),
        "may_see_rules": user.has_perm(VIEW_RULES),
        "here": request.get_full_path() if request.method == "GET" and not request.htmx else "",
    }


def _parse_stamps(text: str) -> dict[UUID, str]:
    """Parse comma-separated `id:stamp` pairs."""
    try:
        return {UUID(pk): stamp for pk, _colon, stamp in (each.partition(":") for each in text.split(",")[:MAX_SHOWN] if each)}
    except ValueError as error:
        raise Http404 from error
