"""A user's signed-in browsers: recorded at sign-in and updated every few minutes. Any of them can sign out the others.

Signing out deletes Django's session, so every later request is rejected. Open sockets are notified and close.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.contrib.auth.signals import user_logged_in
from django.contrib.sessions.models import Session
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone

from clawsite.accounts import change_notices
from clawsite.accounts.models import BrowserSession, User
from clawsite.accounts.sign_in import throttle
from clawsite.infra.audit import log as audit_log

SEEN_UPDATE_INTERVAL = timedelta(minutes=5)  # writing on every request would turn each read into a write


def connect_signals() -> None:
    user_logged_in.connect(_signed_in, dispatch_uid="clawsite.accounts.sign_in.browsers")


def list_browsers(user: User) -> QuerySet[BrowserSession]:
    """List browsers currently signed in, most recently seen first."""
    return BrowserSession.objects.filter(user=user, session__expire_date__gt=timezone.now()).order_by("-last_seen_at", "-pk")


def record_browser(request: HttpRequest, user: User) -> None:
    """Record the browser of this session; update the record if it hasn't been seen for a while or its address changed."""
    key = request.session.session_key
    if key is None:
        return
    now, client = timezone.now(), _client_details(request)
    existing = BrowserSession.objects.filter(session_id=key).first()
    if (
        existing
        and existing.user_id == user.pk
        and existing.last_seen_at > now - SEEN_UPDATE_INTERVAL
        and existing.address == client["address"]
    ):
        return
    try:
        with transaction.atomic():
            BrowserSession.objects.update_or_create(session_id=key, defaults={"user": user, "last_seen_at": now, **client})
    except IntegrityError:
        pass  # signed out elsewhere during this request, or recorded by another one


def record_seen(cookies: Iterable[str]) -> None:
    """Update the last-seen time of browsers with an open socket."""
    BrowserSession.objects.filter(session_id__in=list(cookies)).update(last_seen_at=timezone.now())


@transaction.atomic
def sign_out_others(request: HttpRequest, user: User) -> int:
    """Sign the account out of all other browsers; return their number."""
    others = list_browsers(user).exclude(session_id=request.session.session_key)
    return _end_sessions(user, others)


@transaction.atomic
def sign_out_browser(user: User, browser_pk: int) -> bool:
    """Sign out one of the account's browsers; return False if it doesn't exist."""
    return _end_sessions(user, list_browsers(user).filter(pk=browser_pk)) > 0


def _end_sessions(user: User, browsers: Iterable[BrowserSession]) -> int:
    keys = [browser.session_id for browser in browsers]
    Session.objects.filter(session_key__in=keys).delete()  # our rows are deleted with them
    if keys:
        audit_log.record("sign_in.out", subject=("account", user.pk), name=user.username, browsers=len(keys))
        change_notices.notify_account_changed(user.pk)
    return len(keys)


def _signed_in(request: HttpRequest, user: User, **_signal: Any) -> None:
    if request is not None:
        record_browser(request, user)


def _client_details(request: HttpRequest) -> dict[str, str]:
    address = throttle.address_of_request(request)
    return {"address": address, "user_agent": request.META.get("HTTP_USER_AGENT", "")[:300]}
