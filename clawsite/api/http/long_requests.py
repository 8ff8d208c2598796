"""Recheck the caller's access during long responses, as for sockets.

The check runs when the bus reports a change to the account or to the session's members, and at least once a minute.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NoReturn, TypeVar
from uuid import UUID

from django.conf import settings

from clawsite.accounts.models import User
from clawsite.api.http.authentication import Caller, Unauthorized
from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.scopes import Scope, has_scope
from clawsite.gateway.server.runtime import Runtime
from clawsite.infra import db
from clawsite.infra.errors import Unavailable
from clawsite.infra.waits import wait_for_hint
from sessions_app.models import Session

log = logging.getLogger(__name__)
T = TypeVar("T")


class AccessRevoked(Unauthorized):
    """The credential was revoked, the user signed out, or the account was disabled after the response began."""


class SessionAccessRevoked(AccessRevoked):
    """The caller can't see the session anymore."""

    code = "NOT_FOUND"
    http_status = 404


@asynccontextmanager
async def watch_access(runtime: Runtime, caller: Caller, session_id: UUID | None = None) -> AsyncIterator["asyncio.Future[Any]"]:
    """Yield a future that raises AccessRevoked when the caller loses access."""
    watch = asyncio.ensure_future(_watch_until_revoked(runtime, caller, session_id))
    try:
        yield watch
    finally:
        if not watch.cancel() and not watch.cancelled():
            watch.exception()  # mark it as retrieved, in case the caller didn't


async def run_while_authorized(runtime: Runtime, caller: Caller, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. If the caller loses access, cancel it and raise AccessRevoked."""
    async with watch_access(runtime, caller) as watch:
        task: asyncio.Future[Any] = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            outcome: T = await (watch if watch.done() else task)
            return outcome
        finally:
            task.cancel()


async def _watch_until_revoked(runtime: Runtime, caller: Caller, session_id: UUID | None) -> NoReturn:
    keys: list[int | str] = [caller.user.pk, *([str(session_id)] if session_id else [])]
    delay = settings.POLL_SECONDS  # the first check is early: something may have changed before the subscription
    with runtime.changes.of(*keys) as changed:
        while True:
            await wait_for_hint(changed, delay)
            delay = limits.RECHECK_SECONDS
            try:
                await _check_access(runtime, caller, session_id)
            except Unavailable as error:
                log.warning("could not recheck the caller of a long request: %s", error.message)


async def _check_access(runtime: Runtime, caller: Caller, session_id: UUID | None) -> None:
    access = await runtime.access.check(caller.credential)
    if access is None or not has_scope(access.scopes, Scope.READ):
        raise AccessRevoked("the credentials of this request are no longer valid")
    if session_id and not await db.read(_can_see_session, access.user, session_id):
        raise SessionAccessRevoked("the session is no longer shared with you")


def _can_see_session(user: User, session_id: UUID) -> bool:
    return Session.objects.for_user(user).filter(pk=session_id).exists()
