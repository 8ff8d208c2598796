"""Recheck the credentials of open connections: when the account changes, and at least once a minute."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from clawsite.accounts.change_notices import AccountChanged
from clawsite.gateway.auth.authority import AccountAccess, Credential, SignedOut, read_access
from clawsite.gateway.delivery.audience import Audience
from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.protocol.errors import CloseCode
from clawsite.infra import db
from clawsite.infra.errors import ClawError

log = logging.getLogger(__name__)


class AccessChecks:
    def __init__(self, audience: Audience, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._audience = audience
        self._spawn = spawn
        self._running: dict[Credential, asyncio.Task[AccountAccess | None]] = {}

    async def check(self, credential: Credential) -> AccountAccess | None:
        """Check a credential; sockets with the same credential share the check."""
        if credential not in self._running:
            task = self._running[credential] = asyncio.create_task(db.read(read_access, credential))
            task.add_done_callback(
                lambda done: self._running.pop(credential, None) if self._running.get(credential) is done else None
            )
        return await asyncio.shield(self._running[credential])

    def handle_account_change(self, message: AccountChanged) -> None:
        self._running.clear()  # checks in progress may have read the state before the change
        self._recheck_all(self._audience.connections_of_user(message.user))

    def recheck_due(self) -> None:
        self._recheck_all([connection for connection in self._audience if connection.authority.due])

    def _recheck_all(self, connections: list[Connection]) -> None:
        for connection in connections:
            connection.authority.doubt()
            self._spawn(self._recheck(connection))

    async def _recheck(self, connection: Connection) -> None:
        try:
            await connection.authority.ensure_current()
        except SignedOut:
            connection.line.close(CloseCode.AUTH_CHANGED, "auth changed")
        except ClawError as error:
            log.warning("could not check a credential: %s", error.message, extra={"connection": connection.id})
        self._audience.changed()
