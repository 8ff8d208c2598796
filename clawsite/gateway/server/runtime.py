"""Background services of one web process: bus, hub, ticks, presence, health and credential checks.

Started by the first socket or by the server's lifespan, whichever comes first, in the event loop that serves them.
"""

import asyncio
import contextlib
import logging
import platform
import socket
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from django.conf import settings

from clawsite.accounts.change_notices import AccountChanged
from clawsite.accounts.sign_in import browsers
from clawsite.gateway.auth.authority import AccountAccess, Credential, SignedOut, read_access
from clawsite.gateway.delivery import approval_feed
from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.delivery.hub import Hub
from clawsite.gateway.delivery.hub_queries import DatabaseQueries
from clawsite.gateway.delivery.presence import Presence, PresenceChanged, StateVersions
from clawsite.gateway.delivery.run_feed import RunFeeds
from clawsite.gateway.devices import shapes as devices
from clawsite.gateway.devices.connecting import PairingChanged
from clawsite.gateway.nodes.connected import ConnectedNodes
from clawsite.gateway.nodes.messages import InvocationCreated, InvocationEnded, NodeBroadcastSent, NodeEventReported
from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.errors import CloseCode
from clawsite.gateway.protocol.event_catalog import Health
from clawsite.gateway.protocol.events.frames import OutgoingEvent
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server import health
from clawsite.gateway.server.rate_limits import RateLimits
from clawsite.infra import bus, clock, db, periodic
from clawsite.infra.errors import ClawError
from clawsite.infra.observability import metrics
from clawsite.infra.version import version
from clawsite.infra.waits import Waiters
from sessions_app.events.announce import EventsCommitted, FreezesChanged, SessionChanged
from sessions_app.events.epoch import current_epoch
from tools_app.approvals.announce import ApprovalChanged

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 2.0  # time to send the last frames before the server closes the sockets
BUS_START_SECONDS = 0.5


class Runtime:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.process = uuid.uuid4().hex[:12]
        self.version = version()
        self.epoch = ""  # of the event log, as last seen
        self._checking_epoch = asyncio.Lock()
        self.started_ms = clock.now_ms()
        self.stopping = False
        self.rows = DatabaseQueries()
        self.hub = Hub(self.rows)
        metrics.sockets.set_function(self.hub.audience.__len__)
        self.metrics_name = metrics.process_name("web")
        self.run_feeds = RunFeeds()
        self.approval_waits: Waiters[str] = Waiters()
        self.changes: Waiters[int | str] = Waiters()  # changed accounts and session members, by ID: for long-lived responses
        self.nodes = ConnectedNodes(self.spawn)
        self.rates = RateLimits()
        self.versions = StateVersions()
        me = {
            "host": socket.gethostname(),
            "mode": "gateway",
            "reason": "self",
            "version": self.version,
            "platform": platform.system(),
        }
        self.presence = Presence(
            self.process, me, self.versions, publish=bus.publish, tell=self.hub.broadcast, later=self.loop.call_later
        )
        self._health = health.unreachable_health("not read yet")
        self._health_read = float("-inf")
        self._active_sessions = 0
        self._freeze_ids: frozenset[int] = frozenset()
        self._browsers_recorded = self.loop.time()
        self._checks: dict[Credential, asyncio.Task[AccountAccess | None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._starting: asyncio.Task[None] | None = None
        self._subscriptions: list[Callable[[], None]] = []

    def begin(self) -> "asyncio.Task[None]":
        if self._starting is None:
            self._starting = self.loop.create_task(self._start())
        return self._starting

    async def started(self) -> None:
        """Start once; concurrent callers wait for the same start."""
        await asyncio.shield(self.begin())

    async def _start(self) -> None:
        await bus.start()
        self._subscribe_all()
        self.spawn(self._every(settings.POLL_SECONDS, self.hub.poll))
        self.spawn(self._every(settings.POLL_SECONDS, self.run_feeds.poll))
        self.spawn(self._every(settings.POLL_SECONDS, self._check_freezes))
        self.spawn(self._every(settings.POLL_SECONDS, self.nodes.poll))
        self.spawn(self._every(limits.TICK_SECONDS, self._tick))
        self.spawn(self._every(limits.HEALTH_SECONDS, self._broadcast_health))
        self.spawn(self._every(metrics.WRITE_INTERVAL_SECONDS, self._save_metrics))
        for task in periodic.registered_tasks():
            self.spawn(self._every(task.every(), task.function))
        log.info("the gateway is running as %s", self.process)

    async def stop(self, reason: str, restart_expected_ms: int | None = None) -> None:
        """Close every socket with a shutdown event, then stop all tasks."""
        self.stopping = True
        self.run_feeds.close()
        classic = {"reason": reason, "restartExpectedMs": restart_expected_ms}
        modern = {name: value for name, value in classic.items() if value is not None}
        connections = list(self.hub.audience)
        for connection in connections:
            connection.deliver(OutgoingEvent("shutdown", modern, classic))
            connection.line.close(CloseCode.RESTART, "service restart")
        self.presence.leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SHUTDOWN_SECONDS):
                for connection in connections:
                    await connection.line.ended.wait()
        for unsubscribe in self._subscriptions:
            unsubscribe()
        metrics.remove_snapshot(settings.HOME, self.metrics_name)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            # redis-py can swallow a cancellation during a publish; the timeout cancels it again.
            async with asyncio.timeout(BUS_START_SECONDS):
                await bus.stop()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except ClawError as error:
                log.warning("gateway background task postponed: %s", error.message)
            except Exception:
                log.exception("gateway background task failed")

    def _subscribe_all(self) -> None:
        self._subscriptions = [
            bus.subscribe(EventsCommitted, self._receive_events),
            bus.subscribe(SessionChanged, self._receive_session_change),
            bus.subscribe(AccountChanged, self._receive_account_change),
            bus.subscribe(PresenceChanged, self.presence.handle_message),
            bus.subscribe(ApprovalChanged, self._receive_approval_change),
            bus.subscribe(FreezesChanged, lambda _: self.spawn(self._check_freezes())),
            bus.subscribe(PairingChanged, lambda message: self.spawn(self._notify_pairing(message))),
            bus.subscribe(InvocationCreated, self.nodes.handle_created),
            bus.subscribe(InvocationEnded, self.nodes.handle_ended),
            bus.subscribe(NodeBroadcastSent, self.nodes.handle_broadcast),
            bus.subscribe(NodeEventReported, self._receive_node_event),
        ]

    def _receive_events(self, message: EventsCommitted) -> None:
        self.run_feeds.handle_events(message.events)
        self.hub.receive_events(message)

    def _receive_session_change(self, message: SessionChanged) -> None:
        if message.change == "members":
            self.changes.notify(message.session)
            self.spawn(self.hub.receive_member_change(message))
        else:
            self.hub.receive_session_change(message)

    def _receive_account_change(self, message: AccountChanged) -> None:
        self._invalidate_account(message.user)
        self.changes.notify(message.user)

    def _receive_approval_change(self, message: ApprovalChanged) -> None:
        self.approval_waits.notify(message.id)
        self.spawn(approval_feed.notify_approval(self.hub.audience, message))

    def _receive_node_event(self, message: NodeEventReported) -> None:
        self.hub.send_to_owner(message.owner, OutgoingEvent("node.event", message.event, message.event))

    async def _notify_pairing(self, message: PairingChanged) -> None:
        """Notify users who may decide. A request with an account's credentials is only shown to that account and to managers."""
        if not self.hub.audience:
            return
        try:
            result = await db.read(devices.build_pairing_events, message.id, message.change)
        except ClawError as error:
            log.warning("could not announce pairing request: %s", error.message)
            return
        account, events = result or (None, [])
        for connection in self.hub.audience:
            authority = connection.authority
            if Scope.PAIRING in authority.scopes and (account in (None, connection.user_pk) or authority.manages_devices):
                for outgoing in events:
                    connection.deliver(outgoing)

    # Credentials

    async def check_access(self, credential: Credential) -> AccountAccess | None:
        """Check a credential; sockets with the same credential share the check."""
        if credential not in self._checks:
            task = self._checks[credential] = asyncio.create_task(db.read(read_access, credential))
            task.add_done_callback(
                lambda done: self._checks.pop(credential, None) if self._checks.get(credential) is done else None
            )
        return await asyncio.shield(self._checks[credential])

    def _invalidate_account(self, user_pk: int) -> None:
        self._checks.clear()  # checks in progress may have read the state before the change
        for connection in self.hub.audience.connections_of_user(user_pk):
            connection.authority.doubt()
            self.spawn(self._recheck(connection))

    async def _recheck(self, connection: Connection) -> None:
        try:
            await connection.authority.ensure_current()
        except SignedOut:
            connection.line.close(CloseCode.AUTH_CHANGED, "auth changed")
        except ClawError as error:
            log.warning("could not check a credential: %s", error.message, extra={"connection": connection.id})
        self.hub.audience.changed()

    # Periodic tasks

    async def _tick(self) -> None:
        self.presence.tick()
        for connection in self.hub.audience:
            if connection.authority.due:
                connection.authority.doubt()
                self.spawn(self._recheck(connection))
        if self.loop.time() - self._browsers_recorded > limits.SEEN_SECONDS:
            self._browsers_recorded = self.loop.time()
            self.spawn(self._record_browsers())
        try:
            await self.check_epoch()
            self._active_sessions = await db.read(health.count_active_sessions)
        finally:  # a tick shows that the connection is alive, even if the database is unavailable
            now = clock.now_ms()
            classic = {"ts": now, "activeSessions": self._active_sessions}
            self.hub.broadcast(OutgoingEvent("tick", {"ts": now}, classic, droppable=True), to="everybody")

    async def _record_browsers(self) -> None:
        """Record browsers with an open page as seen, even if they load no other page."""
        if cookies := {cookie for connection in self.hub.audience if (cookie := connection.authority.credential.cookie)}:
            with contextlib.suppress(ClawError):  # retried next time
                await db.write(browsers.record_seen, cookies)

    async def check_epoch(self) -> None:
        """Disconnect all clients if the event log was replaced, because their cursors belong to the old one."""
        async with self._checking_epoch:  # sequentially, so that an older read can't finish last
            epoch = await db.read(current_epoch)
            self._set_epoch(epoch)

    def _set_epoch(self, epoch: str) -> None:
        if self.epoch not in ("", epoch):
            log.warning("database restored (epoch %s); closing all sockets", epoch)
            self.hub.forget()
            for connection in list(self.hub.audience):
                connection.line.close(CloseCode.RESTART, "the database was restored")
        self.epoch = epoch

    @property
    def uptime_ms(self) -> int:
        return clock.now_ms() - self.started_ms

    async def health(self, *, fresh: bool = False) -> Health:
        """Return the health, at most a minute old."""
        if fresh or self.loop.time() - self._health_read > limits.HEALTH_SECONDS:
            await self._read_health()
        return self._health

    async def _read_health(self) -> None:
        try:
            self._health = await db.read(health.read_health)
        except ClawError as error:
            self._health = health.unreachable_health(error.message)
        self._health_read = self.loop.time()
        self.versions.health += 1

    async def _check_freezes(self) -> None:
        """Notify all clients of freezes and resumes. Also polled, because `claw panic` runs without a bus."""
        try:
            freeze_ids = await db.read(health.list_freeze_ids)
        except ClawError:  # the database is unavailable, which is reported elsewhere
            return
        if freeze_ids != self._freeze_ids:
            self._freeze_ids = freeze_ids
            await self._read_health()
            payload = {"ts": clock.now_ms(), "stopped": self._health.get("stopped", [])}
            self.hub.broadcast(OutgoingEvent("freeze", payload, payload))

    async def _save_metrics(self) -> None:
        """Save a snapshot for the other web processes of this host, any of which may serve the metrics request."""
        await asyncio.to_thread(metrics.write_snapshot, settings.HOME, self.metrics_name)

    async def _broadcast_health(self) -> None:
        await self._read_health()
        payload = dict(self._health)
        outgoing = OutgoingEvent("health", payload, payload, state_version=self.versions.to_wire(), droppable=True)
        self.hub.broadcast(outgoing, to="operators")


_current: Runtime | None = None


async def get_runtime() -> Runtime:
    """Return this process's runtime, started if needed."""
    runtime = _runtime_of_loop()
    await runtime.started()
    return runtime


def start_in_background() -> None:
    """Start the runtime without waiting for it."""
    _runtime_of_loop().begin()


def rate_limits() -> RateLimits:
    """Return this process's rate limits, shared by sockets and HTTP requests in any event loop."""
    return (_current or _runtime_of_loop()).rates


def count_online() -> int | None:
    """Count connected clients across all processes; None if this process has no gateway. Safe to call from any thread."""
    runtime = _current
    return None if runtime is None else len(runtime.presence.entries()) - 1  # minus the server's own entry


def _runtime_of_loop() -> Runtime:
    global _current
    if _current is None or _current.loop is not asyncio.get_running_loop():
        _current = Runtime()
    return _current


async def stop(reason: str = "service restart", restart_expected_ms: int | None = None) -> None:
    global _current
    runtime, _current = _current, None
    if runtime is not None and runtime.loop is asyncio.get_running_loop():
        await runtime.stop(reason, restart_expected_ms)
