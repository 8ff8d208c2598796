"""The nodes connected to this process: send invocations to them and wait for their results.

An invocation reaches the process that holds the node's socket through the bus, with a poll as a fallback. It is marked as sent
in the database before it is sent, so a node that reconnects, here or elsewhere, never gets it twice.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.models import NodeInvocation
from clawsite.gateway.nodes import invocations
from clawsite.gateway.nodes.invocations import TIMEOUT, UNAVAILABLE
from clawsite.gateway.nodes.messages import InvocationCreated, InvocationEnded, NodeBroadcastSent
from clawsite.gateway.protocol.events.devices import InvokeRequest
from clawsite.gateway.protocol.events.frames import OutgoingEvent
from clawsite.infra import clock, db
from clawsite.infra.errors import ClawError
from clawsite.infra.waits import Waiters

log = logging.getLogger(__name__)

POLL_SECONDS = 2.0  # in case the bus message about a result was lost
DISCONNECTED_MESSAGE = "the node disconnected before it responded; it is unknown whether the command ran"


class ConnectedNodes:
    def __init__(self, spawn: Callable[[Coroutine[Any, Any, Any]], None]) -> None:
        self._spawn = spawn
        self._connections: dict[int, list[Connection]] = {}  # by device; the latest is used
        self._sent: dict[str, dict[str, datetime]] = {}  # by connection: open invocations and when they expire
        self._waits: Waiters[str] = Waiters()

    def add(self, connection: Connection) -> None:
        self._connections.setdefault(connection.device_pk, []).append(connection)
        self._sent[connection.id] = {}

    def handle_disconnect(self, connection: Connection) -> None:
        """Fail the connection's open invocations. It is unknown whether they ran, so they are not sent again."""
        rest = [other for other in self._connections.pop(connection.device_pk, []) if other is not connection]
        if rest:
            self._connections[connection.device_pk] = rest
        for invocation_id in self._sent.pop(connection.id, ()):
            self._spawn(self._give_up(invocation_id))

    async def _give_up(self, invocation_id: str) -> None:
        try:
            await db.write(invocations.end_invocation, invocation_id, error=(UNAVAILABLE, DISCONNECTED_MESSAGE))
        except ClawError as error:  # the invocation will end at its timeout
            log.warning("could not store the end of an invocation: %s", error.message, extra={"invocation": invocation_id})

    def handle_created(self, message: InvocationCreated) -> None:
        if message.device in self._connections:
            self._spawn(self._send(message.id, message.device))

    def handle_ended(self, message: InvocationEnded) -> None:
        self._waits.notify(message.id)

    def handle_broadcast(self, message: NodeBroadcastSent) -> None:
        outgoing = OutgoingEvent("node.broadcast", message.event, message.event)
        for device_pk in message.devices:
            if connections := self._connections.get(device_pk):
                connections[-1].deliver(outgoing)

    async def poll(self) -> None:
        self._forget_expired()
        if self._connections:
            for invocation_id, device in await db.read(invocations.list_unsent, list(self._connections)):
                await self._send(invocation_id, device)

    def _forget_expired(self) -> None:
        """Forget expired invocations. Their callers got TIMEOUT, perhaps in another process; a node may stay online for months."""
        now = clock.now()
        for sent in self._sent.values():
            for invocation_id in [each for each, until in sent.items() if until <= now]:
                del sent[invocation_id]

    async def _send(self, invocation_id: str, device_pk: int) -> None:
        try:
            invocation = await db.write(invocations.claim_invocation, invocation_id)
        except ClawError as error:
            log.warning("could not send an invocation: %s", error.message, extra={"invocation": invocation_id})
            return
        if invocation is None:
            return
        connections = [connection for connection in self._connections.get(device_pk, []) if not connection.line.closing]
        if not connections:
            await self._give_up(invocation_id)
            return
        request = InvokeRequest(
            id=invocation_id,
            nodeId=invocation.device.fingerprint,
            command=invocation.command,
            timeoutMs=invocation.timeout_ms,
            idempotencyKey=invocation.idempotency_key,
        )
        if invocation.params_json:
            request["paramsJSON"] = invocation.params_json
        self._sent[connections[-1].id][invocation_id] = invocation.expires_at
        connections[-1].deliver(OutgoingEvent("node.invoke.request", {**request}, {**request}))

    def forget_invocation(self, invocation_id: str) -> None:
        for sent in self._sent.values():
            sent.pop(invocation_id, None)

    async def outcome(self, invocation: NodeInvocation) -> NodeInvocation:
        """Return the invocation once it has ended or timed out."""
        invocation_id = str(invocation.pk)

        async def read_ended() -> NodeInvocation | None:
            current = await db.read(invocations.get_invocation, invocation_id)
            return None if current.is_open else current

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((invocation.expires_at - clock.now()).total_seconds()):
                return await self._waits.wait_until(invocation_id, read_ended, poll_seconds=POLL_SECONDS)
        message = f"the node did not respond within {invocation.timeout_ms} ms"
        await db.write(invocations.end_invocation, invocation_id, error=(TIMEOUT, message))
        return await db.read(invocations.get_invocation, invocation_id)
