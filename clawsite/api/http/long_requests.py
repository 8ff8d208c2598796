"""Answers that take a while: whoever waits for one is looked at again meanwhile, as the owner of a socket is.

At once when the bus says that the account, or who sees the session, has changed; otherwise once a minute.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
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
from sessions_app.models import Session

log = logging.getLogger(__name__)
T = TypeVar("T")


class AccessRevoked(Unauthorized):
    """Revoked, signed out or switched off since the answer began."""


class SessionAccessRevoked(AccessRevoked):
    """The session is not one that the caller sees any more."""

    code = "NOT_FOUND"
    http_status = 404


@asynccontextmanager
async def watch_access(runtime: Runtime, who: Caller, session_id: UUID | None = None) -> AsyncIterator["asyncio.Future[Any]"]:
    """Done, with NoLongerTheirs, when the caller may not have the rest."""
    watch = asyncio.ensure_future(_watch_until_revoked(runtime, who, session_id))
    try:
        yield watch
    finally:
        if not watch.cancel() and not watch.cancelled():
            watch.exception()  # nobody may have asked for it


async def run_while_authorized(runtime: Runtime, who: Caller, work: Coroutine[Any, Any, T]) -> T:
    """What the work gives, unless the caller may not have it any more. The work is not waited for then."""
    async with watch_access(runtime, who) as watch:
        working: asyncio.Future[Any] = asyncio.ensure_future(work)
        try:
            await asyncio.wait({working, watch}, return_when=asyncio.FIRST_COMPLETED)
            outcome: T = await (watch if watch.done() else working)
            return outcome
        finally:
            working.cancel()


async def _watch_until_revoked(runtime: Runtime, who: Caller, session_id: UUID | None) -> NoReturn:
    places: list[int | str] = [who.user.pk, *([str(session_id)] if session_id else [])]
    pause = settings.POLL_SECONDS  # first soon: something may have changed before anybody listened
    with runtime.changes.of(*places) as news:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await news.wait()
            news.clear()
            pause = limits.RECHECK_SECONDS
            try:
                await _check_access(runtime, who, session_id)
            except Unavailable as error:
                log.warning("the caller of a long answer could not be checked: %s", error.message)


async def _check_access(runtime: Runtime, who: Caller, session_id: UUID | None) -> None:
    standing = await runtime.check_access(who.credential)
    if standing is None or not has_scope(standing.scopes, Scope.READ):
        raise AccessRevoked("the credential that this was asked with is no longer good")
    if session_id and not await db.read(_can_see_session, standing.user, session_id):
        raise SessionAccessRevoked("the session is not shared with you any more")


def _can_see_session(user: User, session_id: UUID) -> bool:
    return Session.objects.for_user(user).filter(pk=session_id).exists()
