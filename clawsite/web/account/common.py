"""Helpers shared by the sections of the account page."""

from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.timesince import timesince
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.web.account.forms import SCOPE_LABELS


class SignedInRequest(HttpRequest):
    """A request that passed `login_required`."""

    user: User


def redirect_to_section(section: str) -> HttpResponse:
    return redirect(f"{reverse('account')}#{section}")


def format_time_ago(moment: datetime | None) -> str:
    """Format as "3 hours ago". Return "" for None (never)."""
    if moment is None:
        return ""
    if timezone.now() - moment < timedelta(minutes=2):
        return _("just now")
    return _("%s ago") % timesince(moment, depth=1)


def scope_labels(scopes: list[str]) -> list[str]:
    return [str(label) for scope, label in SCOPE_LABELS.items() if scope in scopes]
