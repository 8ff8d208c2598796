"""The server's state in one small object, for `health`, hello-ok and the event sent every minute."""

import time
from collections import Counter
from typing import Any, Literal, cast

from django.db.models import Count

from agents.models import Agent
from agents.selectors import list_agents
from clawsite.gateway.protocol.event_catalog import Health, Stop
from clawsite.infra import clock
from sessions_app.keys import DEFAULT_AGENT
from sessions_app.models import Freeze, Run, Session
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
