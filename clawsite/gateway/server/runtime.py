"""The state of one web process: hub, presence, nodes, health. Its host runs what apps registered for web processes.

Started by the first socket or by the server's lifespan, whichever comes first, in the event loop that serves them.
"""

import asyncio
import contextlib
import logging
import platform
import socket
import uuid

from clawsite.gateway.delivery.access_checks import AccessChecks
from clawsite.gateway.delivery.hub import Hub
from clawsite.gateway.delivery.hub_queries import DatabaseQueries
from clawsite.gateway.delivery.presence import Presence, StateVersions
from clawsite.gateway.delivery.run_feed import RunFeeds
from clawsite.gateway.nodes.connected import ConnectedNodes
from clawsite.gateway.protocol.errors import CloseCode
from clawsite.gateway.protocol.events.frames import OutgoingEvent
from clawsite.gateway.server.health import HealthMonitor
from clawsite.gateway.server.rate_limits import RateLimits
from clawsite.gateway.server.ticks import EventLogEpoch, Ticker
from clawsite.infra import bus, clock
from clawsite.infra.observability import metrics
from clawsite.infra.process.host import Host
from clawsite.infra.version import version
from clawsite.infra.waits import Waiters

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 2.0  # time to send the last frames before the server closes the sockets


class Runtime:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.process = uuid.uuid4().hex[:12]
        self.host = Host("web", self.process)
        self.host.provide(self)
        self.version = version()
        self.started_ms = clock.now_ms()
        self.stopping = False
        self.rows = DatabaseQueries()
        self.hub = Hub(self.rows)
        metrics.sockets.set_function(self.hub.audience.__len__)
        self.run_feeds = RunFeeds()
        self.approval_waits: Waiters[str] = Waiters()
        self.changes: Waiters[int | str] = Waiters()  # changed accounts and session members, by ID: for long-lived responses
        self.nodes = ConnectedNodes(self.host.spawn)
        self.rates = RateLimits()
        self.access = AccessChecks(self.hub.audience, self.host.spawn)
        self.epoch = EventLogEpoch(self.hub)
        self.versions = StateVersions()
        self.health = HealthMonitor(self.hub, self.versions)
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
        self.ticker = Ticker(self.hub, self.presence, self.access, self.epoch, self.host.spawn)
        self._starting: asyncio.Task[None] | None = None

    def begin(self) -> "asyncio.Task[None]":
        if self._starting is None:
            self._starting = self.loop.create_task(self._start())
        return self._starting

    async def started(self) -> None:
        """Start once; concurrent callers wait for the same start."""
        await asyncio.shield(self.begin())

    async def _start(self) -> None:
        await self.host.start()
        log.info("the gateway is running as %s", self.process)

    @property
    def uptime_ms(self) -> int:
        return clock.now_ms() - self.started_ms

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
        await self.host.stop()


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
