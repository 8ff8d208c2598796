"""Sessions that are asked for without a key: one for each idempotency key of their owner.

The session's key follows from it, so that a repeat finds the same session in every process. What was asked for is remembered with
the session, so that another request with the same idempotency key is told apart.
"""

import hashlib
from collections.abc import Callable
from typing import Any

import orjson

from clawsite.accounts.models import User
from clawsite.infra.errors import Conflict
from sessions_app.models import Session

REQUEST_KEY = "request"  # in the origin of a session: the digest of what was asked for


def find_or_create_session(
    user: User, agent: str, idempotency_key: str, asked: dict[str, Any], make: Callable[..., Session]
) -> Session:
    """The session of this idempotency key; if there is none, `make` makes it with the `key` and `origin` it is given.

    Conflict when it was made for another request, also for one with another agent.
    """
    name = hashlib.sha256(idempotency_key.encode()).hexdigest()[:12]
    body = orjson.dumps([idempotency_key, agent, asked], option=orjson.OPT_SORT_KEYS)
    digest = hashlib.sha256(body).hexdigest()
    made = Session.objects.filter(owner=user, key__endswith=f":{name}", deleted_at__isnull=True).first()
    session = made or make(key=f"agent:{agent}:{name}", origin={REQUEST_KEY: digest})
    if session.origin.get(REQUEST_KEY) != digest:
        raise Conflict("this idempotencyKey was used for another session; choose a new one", details={"sessionKey": session.key})
    return session
