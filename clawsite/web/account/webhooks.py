"""Webhooks that act for one's account, or want to: what they do, and one's own yes or no."""

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from clawsite.accounts.models import User
from clawsite.gateway.hooks import consent
from clawsite.infra.errors import Conflict, NotFound
from clawsite.web.account.common import SignedInRequest, back_to


def hooks_of(user: User) -> dict[str, Any]:
    """For the page's context."""
    return {"hooks": consent.hooks_for(user)}


@require_POST
@login_required
def agree(request: SignedInRequest, pk: int) -> HttpResponse:
    """To the webhook as the page showed it: what was changed since then is not agreed to."""
    try:
        hook = consent.agree(pk, by=request.user, seen=_moment(request.POST.get("seen", "")))
    except NotFound as missing:
        raise Http404 from missing
    except Conflict:
        messages.error(request, _("The webhook was changed. Review it again before you authorize it."))
    else:
        messages.success(request, _("“%s” can now act for you.") % hook)
    return back_to("webhooks")


def _moment(text: str) -> datetime | None:
    try:
        return parse_datetime(text)
    except ValueError:  # of the right form, and no date
        return None


@require_POST
@login_required
def refuse(request: SignedInRequest, pk: int) -> HttpResponse:
    try:
        hook = consent.refuse(pk, by=request.user)
    except NotFound as missing:
        raise Http404 from missing
    messages.success(request, _("“%s” can’t act for you and was disabled.") % hook)
    return back_to("webhooks")
