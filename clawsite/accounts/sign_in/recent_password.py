"""Track when a user last entered their password: at sign-in, and when asked to confirm it.

Security-sensitive changes require a recent confirmation, so that a browser left open is not enough.
"""

import time
from typing import Any

from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from clawsite.infra.errors import Forbidden

CONFIRMED_AT_KEY = "confirmed_at"


def connect_signals() -> None:
    user_logged_in.connect(_signed_in, dispatch_uid="clawsite.accounts.sign_in.recent_password")


def record_confirmation(session: SessionBase) -> None:
    session[CONFIRMED_AT_KEY] = time.time()


def is_recent(session: SessionBase) -> bool:
    return time.time() - float(session.get(CONFIRMED_AT_KEY, 0)) <= settings.CONFIRM_MINUTES * 60


def is_cookie_recent(cookie: str) -> bool:
    """Same check for a socket, which is identified by its session cookie."""
    store: type[SessionBase] = import_string(f"{settings.SESSION_ENGINE}.SessionStore")
    return is_recent(store(cookie))


def confirmation_required() -> Forbidden:
    """Build the error for APIs, which have no page to ask for the password."""
    message = _("confirm your password first: open /confirm/ in this browser")
    return Forbidden(message, details={"code": "CONFIRMATION_REQUIRED"})


def _signed_in(request: HttpRequest, **_signal: Any) -> None:
    record_confirmation(request.session)
