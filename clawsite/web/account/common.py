"""What the parts of the account page have in common."""

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
    """What `login_required` leaves."""

    user: User


def redirect_to_section(section: str) -> HttpResponse:
    return redirect(f"{reverse('account')}#{section}")


def format_time_ago(moment: datetime | None) -> str:
    """Such as "3 hours ago"; empty for never."""
    if moment is None:
        return ""
    if timezone.now() - moment < timedelta(minutes=2):
        return _("just now")
    return _("%s ago") % timesince(moment, depth=1)


def scope_labels(scopes: list[str]) -> list[str]:
    return [str(words) for scope, words in SCOPE_LABELS.items() if scope in scopes]
