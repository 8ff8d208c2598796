"""The server's state in one small object, for `health`, hello-ok and the event sent every minute."""

import asyncio
import time
from collections import Counter
from typing import Any, Literal, cast

from django.db.models import Count

from agents.models import Agent
from agents.selectors import list_agents
from clawsite.gateway.delivery.hub import Hub
from clawsite.gateway.delivery.presence import StateVersions
from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.event_catalog import Health, Stop
from clawsite.gateway.protocol.events.frames import OutgoingEvent
from clawsite.infra import clock, db
from clawsite.infra.errors import ClawError
from sessions_app.keys import DEFAULT_AGENT
from sessions_app.models import Freeze, Run, RunWait, Session
from sessions_app.runs import freezes, lanes, workers


def count_active_sessions() -> int:
    """Count sessions with a running agent."""
    return Run.objects.filter(status=Run.Status.RUNNING).count()


def read_health() -> Health:
    """Read counts and freezes. It is sent to all clients, so it names no sessions."""
    began = time.perf_counter()
    sessions = Session.objects.filter(deleted_at__isnull=True)
    counts = Counter(dict(sessions.values_list("agent").annotate(count=Count("pk"))))
    unfinished = Run.objects.filter(status__in=Run.UNFINISHED).values_list("status").annotate(count=Count("pk"))
    health: Health = {
        "ok": True,
        "ts": clock.now_ms(),
        "channels": {},
        "channelOrder": [],
        "channelLabels": {},
        "heartbeatSeconds": 0,
        "defaultAgentId": DEFAULT_AGENT,
        "agents": [_agent_row(agent, counts[agent.slug]) for agent in list_agents()],
        "sessions": {"path": "", "count": counts.total(), "recent": []},
        "runs": {"accepted": 0, "running": 0, "waiting": 0} | dict(unfinished),
        "waitingFor": RunWait.objects.count_runs(),
        "lanes": lanes.report_lanes(),
        "workers": workers.list_live().count(),
        "stopped": [freeze_to_wire(freeze) for freeze in freezes.list_active() if freeze.scope != Freeze.Scope.RUN],
    }
    return {**health, "durationMs": round((time.perf_counter() - began) * 1000)}


def _agent_row(agent: Agent, sessions: int) -> dict[str, Any]:
    """Return an agent in OpenClaw's form, whose clients expect heartbeats; there are none."""
    heartbeat = {"enabled": False, "every": "", "everyMs": None, "prompt": "", "target": "none", "ackMaxChars": 0}
    return {
        "agentId": agent.slug,
        "name": agent.name,
        "isDefault": agent.slug == DEFAULT_AGENT,
        "heartbeat": heartbeat,
        "sessions": {"path": "", "count": sessions, "recent": []},
    }


def freeze_to_wire(freeze: Freeze) -> Stop:
    """Convert a freeze to its wire form."""
    scope = cast("Literal['all', 'agent', 'run']", freeze.scope)
    return Stop(
        id=freeze.pk, scope=scope, subject=freeze.subject, reason=freeze.reason, by=freeze.by_name, at=clock.to_ms(freeze.at)
    )


def list_freeze_ids() -> frozenset[int]:
    """Return the IDs of the active freezes. If they change, all clients are notified."""
    return frozenset(freeze.pk for freeze in freezes.list_active())


def unreachable_health(reason: str) -> Health:
    return {"ok": False, "ts": clock.now_ms(), "error": reason}


class HealthMonitor:
    """The health as this process last read it, and the notices that it has changed."""

    def __init__(self, hub: Hub, versions: StateVersions) -> None:
        self._hub, self._versions = hub, versions
        self._now = asyncio.get_running_loop().time
        self._health = unreachable_health("not read yet")
        self._read_at = float("-inf")
        self._freeze_ids: frozenset[int] = frozenset()

    async def get(self, *, fresh: bool = False) -> Health:
        """Return the health, at most a minute old."""
        if fresh or self._now() - self._read_at > limits.HEALTH_SECONDS:
            await self._read()
        return self._health

    async def _read(self) -> None:
        try:
            self._health = await db.read(read_health)
        except ClawError as error:
            self._health = unreachable_health(error.message)
        self._read_at = self._now()
        self._versions.health += 1

    async def broadcast(self) -> None:
        await self._read()
        payload = dict(self._health)
        outgoing = OutgoingEvent("health", payload, payload, state_version=self._versions.to_wire(), droppable=True)
        self._hub.broadcast(outgoing, to="operators")

    async def check_freezes(self) -> None:
        """Notify all clients of freezes and resumes. Also polled, because `claw panic` runs without a bus."""
        freeze_ids = await db.read(list_freeze_ids)
        if freeze_ids != self._freeze_ids:
            self._freeze_ids = freeze_ids
            await self._read()
            payload = {"ts": clock.now_ms(), "stopped": self._health.get("stopped", [])}
            self._hub.broadcast(OutgoingEvent("freeze", payload, payload))
