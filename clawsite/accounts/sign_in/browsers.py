"""Browsers somebody is signed in with: noted at sign-in, seen now and then, ended from any of them.

To end one is to delete Django's session, so there is nothing left that a check could forget to ask; its sockets close
as soon as they hear of it (`announce`).
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

SEEN_UPDATE_INTERVAL = timedelta(minutes=5)  # a row per request would make every read a write


def connect_signals() -> None:
    user_logged_in.connect(_signed_in, dispatch_uid="clawsite.accounts.sign_in.browsers")


def list_browsers(user: User) -> QuerySet[BrowserSession]:
    """Those that are signed in now, the one seen last first."""
    return BrowserSession.objects.filter(user=user, session__expire_date__gt=timezone.now()).order_by("-last_seen_at", "-pk")


def record_browser(request: HttpRequest, user: User) -> None:
    """Write down which browser this session is; also the time, if it was not seen for a while or has moved."""
    key = request.session.session_key
    if key is None:
        return
    now, looks = timezone.now(), _client_details(request)
    known = BrowserSession.objects.filter(session_id=key).first()
    if known and known.user_id == user.pk and known.last_seen_at > now - SEEN_UPDATE_INTERVAL and known.address == looks["address"]:
        return
    try:
        with transaction.atomic():
            BrowserSession.objects.update_or_create(session_id=key, defaults={"user": user, "last_seen_at": now, **looks})
    except IntegrityError:
        pass  # signed out from elsewhere while this request was under way, or noted by another one


def record_seen(cookies: Iterable[str]) -> None:
    """Browsers that hold a socket open."""
    BrowserSession.objects.filter(session_id__in=list(cookies)).update(last_seen_at=timezone.now())


@transaction.atomic
def sign_out_others(request: HttpRequest, user: User) -> int:
    """Sign the account out everywhere but here; how many browsers that were."""
    others = list_browsers(user).exclude(session_id=request.session.session_key)
    return _end_sessions(user, others)


@transaction.atomic
def sign_out_browser(user: User, browser_pk: int) -> bool:
    """End one of the account's browsers; False when there is none of that number."""
    return _end_sessions(user, list_browsers(user).filter(pk=browser_pk)) > 0


def _end_sessions(user: User, browsers: Iterable[BrowserSession]) -> int:
    keys = [browser.session_id for browser in browsers]
    Session.objects.filter(session_key__in=keys).delete()  # our rows go with them
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
