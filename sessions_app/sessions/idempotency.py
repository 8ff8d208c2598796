"""Sessions created without a key: one for each idempotency key of their owner.

The session key is derived from it, so a retry finds the same session in every process. A digest of the request is stored with the
session to detect a different request with the same idempotency key.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import orjson
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra.errors import Conflict
from sessions_app.models import Session

REQUEST_KEY = "request"  # in a session's origin: digest of the request


def find_or_create_session(
    user: User, agent: str, idempotency_key: str, request: dict[str, Any], make: Callable[..., Session]
) -> Session:
    """Return the session for this idempotency key; if there is none, call `make` with its `key` and `origin`.

    Raise Conflict if it was created for a different request or agent.
    """
    name = hashlib.sha256(idempotency_key.encode()).hexdigest()[:12]
    body = orjson.dumps([idempotency_key, agent, request], option=orjson.OPT_SORT_KEYS)
    digest = hashlib.sha256(body).hexdigest()
    existing = Session.objects.filter(owner=user, key__endswith=f":{name}", deleted_at__isnull=True).first()
    session = existing or make(key=f"agent:{agent}:{name}", origin={REQUEST_KEY: digest})
    if session.origin.get(REQUEST_KEY) != digest:
        raise Conflict(
            _("This idempotencyKey was used for a different request. Use a new one."), details={"sessionKey": session.key}
        )
    return session
