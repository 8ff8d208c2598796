"""What every web process does each tick: show clients that the connection is alive, and check what may have changed."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from clawsite.accounts.sign_in import browsers
from clawsite.gateway.delivery.access_checks import AccessChecks
from clawsite.gateway.delivery.hub import Hub
from clawsite.gateway.delivery.presence import Presence
from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.errors import CloseCode
from clawsite.gateway.protocol.events.frames import OutgoingEvent
from clawsite.gateway.server import health
from clawsite.infra import clock, db
from clawsite.infra.errors import ClawError
from sessions_app.events.epoch import current_epoch

log = logging.getLogger(__name__)


class EventLogEpoch:
    """The epoch of the event log, as last seen."""

    def __init__(self, hub: Hub) -> None:
        self.value = ""
        self._hub = hub
        self._checking = asyncio.Lock()

    async def check(self) -> None:
        """Disconnect all clients if the event log was replaced, because their cursors belong to the old one."""
        async with self._checking:  # sequentially, so that an older read can't finish last
            epoch = await db.read(current_epoch)
            if self.value not in ("", epoch):
                log.warning("database restored (epoch %s); closing all sockets", epoch)
                self._hub.forget()
                for connection in list(self._hub.audience):
                    connection.line.close(CloseCode.RESTART, "the database was restored")
            self.value = epoch


class Ticker:
    def __init__(
        self,
        hub: Hub,
        presence: Presence,
        access: AccessChecks,
        epoch: EventLogEpoch,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._hub, self._presence, self._access, self._epoch, self._spawn = hub, presence, access, epoch, spawn
        self._now = asyncio.get_running_loop().time
        self._browsers_recorded = self._now()
        self._active_sessions = 0

    async def tick(self) -> None:
        self._presence.tick()
        self._access.recheck_due()
        if self._now() - self._browsers_recorded > limits.SEEN_SECONDS:
            self._browsers_recorded = self._now()
            self._spawn(self._record_browsers())
        try:
            await self._epoch.check()
            self._active_sessions = await db.read(health.count_active_sessions)
        finally:  # a tick shows that the connection is alive, even if the database is unavailable
            now = clock.now_ms()
            classic = {"ts": now, "activeSessions": self._active_sessions}
            self._hub.broadcast(OutgoingEvent("tick", {"ts": now}, classic, droppable=True), to="everybody")

    async def _record_browsers(self) -> None:
        """Record browsers with an open page as seen, even if they load no other page."""
        if cookies := {cookie for connection in self._hub.audience if (cookie := connection.authority.credential.cookie)}:
            with contextlib.suppress(ClawError):  # retried next time
                await db.write(browsers.record_seen, cookies)
