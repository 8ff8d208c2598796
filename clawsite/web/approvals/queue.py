"""The questions that wait for people: a live list, and one of them by itself. clawsite.web.approvals.decisions takes the answers."""

from typing import Any
from uuid import UUID

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from clawsite.infra import clock
from clawsite.infra.errors import NotFound
from clawsite.web.approvals.access import APPROVE, LOOK_AT_RULES, READ_ALONG, ApprovalRequest, for_people
from clawsite.web.approvals.card import card, cards, read
from clawsite.web.approvals.enable_agent import offer_for
from clawsite.web.approvals.filters import PER_PAGE, Filters, choices, page_of, pending
from clawsite.web.approvals.labels import FOR
from tools_app.approvals import requests as approval_requests
from tools_app.models import Approval

MENUS = ("for", "always")
MOST_SHOWN = 4 * PER_PAGE  # cards that one open page asks about; answered ones stay on it for a while


@for_people()
@require_safe
def queue(request: ApprovalRequest) -> HttpResponse:
    filters = Filters.read(request.GET)
    waiting = pending(request.user)
    found = filters.apply(waiting)
    total = found.count()
    rows = read(page_of(found, filters.page))
    wanted = request.GET.get("let", "")
    offer = offer_for(request.user, wanted)
    context = {
        **for_cards(request),
        "cards": cards(request.user, rows),
        "filters": filters,
        "choices": choices(waiting),
        "total": total,
        "pages": -(-total // PER_PAGE),
        "earlier": filters.query(page=filters.page - 1) if filters.page > 1 else None,
        "later": filters.query(page=filters.page + 1) if filters.page * PER_PAGE < total else None,
        "query": filters.query(),
        "offer": offer,
        "may_ask_already": wanted if wanted and offer is None else "",
        "sees_all": request.user.has_perm(APPROVE) or request.user.has_perm(READ_ALONG),
    }
    return render(request, "approvals/page.html", context)


@for_people()
@require_safe
def live(request: ApprovalRequest) -> HttpResponse:
    """What is new on the page since it was drawn: `shown` names its cards, each with the stamp it had."""
    filters = Filters.read(request.GET)
    shown = _stamps(request.GET.get("shown", ""))
    rows = read(page_of(filters.apply(pending(request.user)), filters.page))
    answered = shown.keys() - {row.pk for row in rows}
    rows += read(Approval.objects.for_user(request.user).filter(pk__in=answered)) if answered else []
    changed = [each for each in cards(request.user, rows) if shown.get(each.approval.pk) != each.stamp]
    context = {**for_cards(request), "cards": changed, "query": filters.query(), "solo": request.GET.get("solo") == "1"}
    return render(request, "approvals/_list.html", context)


@for_people()
@require_safe
def count(request: ApprovalRequest) -> HttpResponse:
    """How many wait, for the badge; and the newest of them, so that a notification can say who asks."""
    waiting = pending(request.user)
    newest = waiting.order_by("-created_at").values("id", "agent", "requester__username", "created_at").first()
    if newest is None:
        return JsonResponse({"count": 0, "newest": None})
    who = {"agent": newest["agent"], "person": newest["requester__username"]}
    told = {"id": str(newest["id"]), "askedAt": clock.to_ms(newest["created_at"]), **who}
    return JsonResponse({"count": waiting.count(), "newest": told})


@for_people()
@require_safe
def one(request: ApprovalRequest, pk: UUID) -> HttpResponse:
    """One question, open or answered, with all that is known of it."""
    return render(request, "approvals/one.html", {**for_cards(request), "card": card(request.user, find(request, pk))})


@for_people()
@require_safe
def in_chat(request: ApprovalRequest, pk: UUID) -> HttpResponse:
    """The same for the conversation it belongs to."""
    return render(request, "approvals/_chat.html", {**for_cards(request), "card": card(request.user, find(request, pk))})


@for_people()
@require_safe
def menu(request: ApprovalRequest, pk: UUID, which: str) -> HttpResponse:
    """One of the longer answers to a question of a list, as it is opened. Without a script they are on the question's own page."""
    shown = card(request.user, find(request, pk))
    if which not in MENUS or not shown.is_open or shown.why_not or f"allow-{which}" not in shown.may:
        raise Http404
    return render(request, f"approvals/_menu_{which}.html", {**for_cards(request), "card": shown})


def find(request: ApprovalRequest, pk: UUID) -> Approval:
    try:
        return approval_requests.find(request.user, pk)
    except NotFound as gone:
        raise Http404 from gone


def for_cards(request: ApprovalRequest) -> dict[str, Any]:
    """What every card needs besides itself."""
    user = request.user
    return {
        "reader": user,
        "durations": FOR,
        "may_approve": user.has_perm(APPROVE),
        "may_see_rules": user.has_perm(LOOK_AT_RULES),
        "here": request.get_full_path() if request.method == "GET" and not request.htmx else "",
    }


def _stamps(text: str) -> dict[UUID, str]:
    """id:stamp, and so on."""
    try:
        return {UUID(pk): stamp for pk, _colon, stamp in (each.partition(":") for each in text.split(",")[:MOST_SHOWN] if each)}
    except ValueError as wrong:
        raise Http404 from wrong
