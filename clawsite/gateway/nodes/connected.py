"""One per process: the nodes that are connected here, what is sent to them, and who waits for their answers.

An invocation reaches the process that holds the node's socket by the bus, with a poll behind it. It is marked as sent in the rows
before it is sent, so a node that connects anew, here or elsewhere, is never asked twice.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.models import NodeInvocation
from clawsite.gateway.nodes import invocations
from clawsite.gateway.nodes.invocations import TIMEOUT, UNAVAILABLE
from clawsite.gateway.protocol.device_events import InvokeRequest
from clawsite.gateway.protocol.event_frames import OutgoingEvent
from clawsite.infra import clock, db
from clawsite.infra.errors import ClawError
from clawsite.infra.waits import Waiters

log = logging.getLogger(__name__)

POLL_SECONDS = 2.0  # behind the hint of an answer
DISCONNECTED_MESSAGE = "the node went away before it answered; whether it did what it was asked is not known"


class ConnectedNodes:
    def __init__(self, spawn: Callable[[Coroutine[Any, Any, Any]], None]) -> None:
        self._spawn = spawn
        self._connections: dict[int, list[Connection]] = {}  # by device; the last to come is the one to ask
        self._sent: dict[str, dict[str, datetime]] = {}  # by connection: what it has not answered yet, and until when it may
        self._waits: Waiters[str] = Waiters()

    def add(self, connection: Connection) -> None:
        self._connections.setdefault(connection.device_pk, []).append(connection)
        self._sent[connection.id] = {}

    def left(self, connection: Connection) -> None:
        """Nobody knows whether the node did what it had been sent: that is said, and it is not sent again."""
        rest = [other for other in self._connections.pop(connection.device_pk, []) if other is not connection]
        if rest:
            self._connections[connection.device_pk] = rest
        for invocation_id in self._sent.pop(connection.id, ()):
            self._spawn(self._give_up(invocation_id))

    async def _give_up(self, invocation_id: str) -> None:
        try:
            await db.write(invocations.end_invocation, invocation_id, error=(UNAVAILABLE, DISCONNECTED_MESSAGE))
        except ClawError as error:  # it ends when its time is over
            log.warning("the end of an invocation could not be stored: %s", error.message, extra={"invocation": invocation_id})

    def hear(self, message: dict[str, Any]) -> None:
        if message["k"] == "node-result":
            self._waits.tell(message["id"])
        elif message["k"] == "node-broadcast":
            self._broadcast(message["devices"], message["event"])
        elif message["device"] in self._connections:
            self._spawn(self._send(message["id"], message["device"]))

    def _broadcast(self, devices: list[int], payload: dict[str, Any]) -> None:
        outgoing = OutgoingEvent("node.broadcast", payload, payload)
        for device_pk in devices:
            if connections := self._connections.get(device_pk):
                connections[-1].take(outgoing)

    async def poll(self) -> None:
        self._forget_expired()
        if self._connections:
            for invocation_id, device in await db.read(invocations.list_unsent, list(self._connections)):
                await self._send(invocation_id, device)

    def _forget_expired(self) -> None:
        """Whoever waited has been told TIMEOUT, perhaps in another process; a silent node may stay connected for months."""
        now = clock.now()
        for sent in self._sent.values():
            for invocation_id in [each for each, until in sent.items() if until <= now]:
                del sent[invocation_id]

    async def _send(self, invocation_id: str, device_pk: int) -> None:
        try:
            taken = await db.write(invocations.claim_invocation, invocation_id)
        except ClawError as error:
            log.warning("an invocation could not be sent: %s", error.message, extra={"invocation": invocation_id})
            return
        if taken is None:
            return
        connections = [connection for connection in self._connections.get(device_pk, []) if not connection.line.closing]
        if not connections:
            await self._give_up(invocation_id)
            return
        asked = InvokeRequest(
            id=invocation_id,
            nodeId=taken.device.fingerprint,
            command=taken.command,
            timeoutMs=taken.timeout_ms,
            idempotencyKey=taken.idempotency_key,
        )
        if taken.params_json:
            asked["paramsJSON"] = taken.params_json
        self._sent[connections[-1].id][invocation_id] = taken.expires_at
        connections[-1].take(OutgoingEvent("node.invoke.request", {**asked}, {**asked}))

    def answered(self, invocation_id: str) -> None:
        for sent in self._sent.values():
            sent.pop(invocation_id, None)

    async def outcome(self, invocation: NodeInvocation) -> NodeInvocation:
        """The invocation once it has ended, by its answer or by its time-out. Listening begins before the row is read."""
        invocation_id = str(invocation.pk)
        with self._waits.of(invocation_id) as news:
            while invocation.is_open:
                news.clear()
                invocation = await db.read(invocations.get_invocation, invocation_id)
                left = invocation.expires_at.timestamp() - clock.now().timestamp()
                if not invocation.is_open:
                    break
                if left <= 0:
                    words = f"the node has not answered within {invocation.timeout_ms} ms"
                    await db.write(invocations.end_invocation, invocation_id, error=(TIMEOUT, words))
                    invocation = await db.read(invocations.get_invocation, invocation_id)
                    break
                try:
                    async with asyncio.timeout(min(left, POLL_SECONDS)):
                        await news.wait()
                except TimeoutError:
                    continue
        return invocation
