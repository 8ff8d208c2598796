"""Answers to questions, one or several at a time: forms. htmx swaps the card, a plain browser gets the page again.

Who may answer and whose answer counts is decided by tools_app.approvals.requests.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from clawsite.infra.errors import ClawError, NotFound
from clawsite.web.approvals.access import APPROVE, ApprovalRequest, require_any_permission
from clawsite.web.approvals.card import build_card, build_cards, load_approvals
from clawsite.web.approvals.filters import PER_PAGE
from clawsite.web.approvals.queue import card_context, find_approval
from clawsite.web.redirects import safe_redirect_url
from tools_app.approvals import requests as approval_requests
from tools_app.approvals.grants import GrantTerms
from tools_app.models import Approval

GRANT_SCOPES = ("session", "agent", "directory")


@require_any_permission()
@require_POST
def decide_approval(request: ApprovalRequest, pk: UUID) -> HttpResponse:
    """Say yes or no to exactly what was shown."""

    def resolve() -> str:
        settled = approval_requests.resolve_approval(
            pk,
            by=request.user,
            decision=request.POST.get("decision", ""),
            reason=request.POST.get("reason", "").strip(),
            terms=_parse_grant_terms(request),
            seen_hash=request.POST.get("seen_hash", ""),
        )
        return _("Your decision was saved.") if not settled.is_open else _("One more approval is needed.")

    return _apply_and_render(request, pk, resolve)


@require_any_permission()
@require_POST
def extend_approval(request: ApprovalRequest, pk: UUID) -> HttpResponse:
    def prolong() -> str:
        approval_requests.extend_approval(pk, by=request.user)
        return _("The deadline was extended.")

    return _apply_and_render(request, pk, prolong)


@require_any_permission()
@require_POST
def skip_approval(request: ApprovalRequest, pk: UUID) -> HttpResponse:
    def give_up() -> str:
        approval_requests.skip_approval(pk, by=request.user)
        return _("The command was skipped; the agent continues without it.")

    return _apply_and_render(request, pk, give_up)


@require_any_permission(APPROVE)
@require_POST
def decide_many(request: ApprovalRequest) -> HttpResponse:
    """The same answer to many, each for itself: what one of them refuses does not hold up the others."""
    decision = request.POST.get("decision", "")
    if decision not in (Approval.Decision.ONCE, Approval.Decision.DENY):
        raise Http404
    reason = request.POST.get("reason", "").strip()
    problems: dict[UUID, str] = {}
    chosen = [_parse_chosen(each) for each in request.POST.getlist("chosen")[:PER_PAGE]]
    for pk, seen_hash in chosen:
        try:
            approval_requests.resolve_approval(pk, by=request.user, decision=decision, reason=reason, seen_hash=seen_hash)
        except ClawError as refused:
            problems[pk] = refused.message
    done = len(chosen) - len(problems)
    said = ngettext("%(done)d decided.", "%(done)d decided.", done) % {"done": done}
    if problems:
        failed = len(problems)
        said += " " + ngettext("%(failed)d failed.", "%(failed)d failed.", failed) % {"failed": failed}
    if not request.htmx:
        (messages.warning if problems else messages.success)(request, said)
        return redirect(safe_redirect_url(request, request.POST.get("next")))
    rows = load_approvals(Approval.objects.for_user(request.user).filter(pk__in=[pk for pk, _hash in chosen]))
    shown = [replace(each, problem=problems.get(each.approval.pk, "")) for each in build_cards(request.user, rows)]
    return render(
        request, "approvals/_bulk_decision.html", {**card_context(request), "cards": shown, "said": said, "problems": problems}
    )


def _apply_and_render(request: ApprovalRequest, pk: UUID, act: Callable[[], str]) -> HttpResponse:
    """The card as it is afterwards, whoever won; what was refused stands on it in words."""
    problem, status, said = "", 200, ""
    try:
        said = act()
    except NotFound as gone:
        raise Http404 from gone
    except ClawError as refused:
        problem, status = refused.message, refused.http_status
    if request.htmx:
        shown = replace(build_card(request.user, find_approval(request, pk)), problem=problem)
        template = "approvals/_chat_card.html" if request.POST.get("shape") == "chat" else "approvals/_card.html"
        solo = request.htmx.current_url_abs_path == reverse("approval", args=[pk])  # its own page keeps showing all of it
        return render(request, template, {**card_context(request), "card": shown, "solo": solo}, status=status)
    if problem:
        shown = replace(build_card(request.user, find_approval(request, pk)), problem=problem)
        return render(request, "approvals/request.html", {**card_context(request), "card": shown}, status=status)
    messages.success(request, said)
    return redirect(safe_redirect_url(request, request.POST.get("next") or reverse("approvals")))


def _parse_grant_terms(request: ApprovalRequest) -> GrantTerms | None:
    """For how long, how often and where; None where the answer is another one."""
    if request.POST.get("decision") != Approval.Decision.FOR:
        return None
    span, uses, scope = (request.POST.get(name, "")[:9] for name in ("for", "uses", "scope"))
    if scope not in GRANT_SCOPES:
        raise Http404
    counted = span == "uses"
    return GrantTerms(
        cast("Any", scope),
        seconds=None if counted else _parse_number(span),
        uses=_parse_number(uses) if counted else None,
    )


def _parse_number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


def _parse_chosen(text: str) -> tuple[UUID, str]:
    """An id and the hash of the plan that was shown with it."""
    pk, _colon, seen_hash = text.partition(":")
    try:
        return UUID(pk), seen_hash
    except ValueError as wrong:
        raise Http404 from wrong
