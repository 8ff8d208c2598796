"""Webhooks that act for the user's account or ask for permission to, and the user's consent."""

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from clawsite.accounts.models import User
from clawsite.connectors.webhook import consent
from clawsite.infra.errors import Conflict, NotFound
from clawsite.web.account.common import SignedInRequest, redirect_to_section


def webhook_context(user: User) -> dict[str, Any]:
    """Return the template context of the webhooks section."""
    return {"hooks": consent.list_webhooks_for(user)}


@require_POST
@login_required
def agree_to_webhook(request: SignedInRequest, pk: int) -> HttpResponse:
    """Consent to the webhook as the page showed it. If it has changed since, no consent is given."""
    try:
        hook = consent.give_consent(pk, by=request.user, seen=_parse_time(request.POST.get("seen", "")))
    except NotFound as error:
        raise Http404 from error
    except Conflict:
        messages.error(request, _("The webhook was changed. Review it again before you authorize it."))
    else:
        messages.success(request, _("“%s” can now act for you.") % hook)
    return redirect_to_section("webhooks")


def _parse_time(text: str) -> datetime | None:
    try:
        return parse_datetime(text)
    except ValueError:  # well-formed but not a valid date
        return None


@require_POST
@login_required
def decline_webhook(request: SignedInRequest, pk: int) -> HttpResponse:
    try:
        hook = consent.withdraw_consent(pk, by=request.user)
    except NotFound as error:
        raise Http404 from error
    messages.success(request, _("“%s” can’t act for you and was disabled.") % hook)
    return redirect_to_section("webhooks")
