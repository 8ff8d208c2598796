"""The state of the installation in one small object, for `health`, hello-ok and the event every minute."""

import time
from collections import Counter
from typing import Any, Literal, cast

from django.db.models import Count

from agents.models import Agent
from agents.selectors import list_agents
from clawsite.gateway.protocol.events import Health, Stop
from clawsite.infra import clock
from sessions_app.keys import DEFAULT_AGENT
from sessions_app.models import Freeze, Run, Session
from sessions_app.runs import freezes, lanes, workers


def count_active_sessions() -> int:
    """Sessions in which an agent is at work now."""
    return Run.objects.filter(status=Run.Status.RUNNING).count()


def read_health() -> Health:
    """Numbers, and why nothing happens: it goes to everybody, so it names nobody's sessions."""
    began = time.perf_counter()
    kept = Session.objects.filter(deleted_at__isnull=True)
    counts = Counter(dict(kept.values_list("agent").annotate(count=Count("pk"))))
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
        "stopped": [freeze_to_wire(stop) for stop in freezes.list_active() if stop.scope != Freeze.Scope.RUN],
    }
    return {**health, "durationMs": round((time.perf_counter() - began) * 1000)}


def _agent_row(agent: Agent, sessions: int) -> dict[str, Any]:
    """In the words of OpenClaw's clients, who expect to be told of heartbeats, and get to know that there are none."""
    heartbeat = {"enabled": False, "every": "", "everyMs": None, "prompt": "", "target": "none", "ackMaxChars": 0}
    return {
        "agentId": agent.slug,
        "name": agent.name,
        "isDefault": agent.slug == DEFAULT_AGENT,
        "heartbeat": heartbeat,
        "sessions": {"path": "", "count": sessions, "recent": []},
    }


def freeze_to_wire(stop: Freeze) -> Stop:
    """A stop on the wire."""
    scope = cast("Literal['all', 'agent', 'run']", stop.scope)
    return Stop(id=stop.pk, scope=scope, subject=stop.subject, reason=stop.reason, by=stop.by_name, at=clock.to_ms(stop.at))


def list_freeze_ids() -> frozenset[int]:
    """Which stops there are: two looks that differ are news for everybody."""
    return frozenset(stop.pk for stop in freezes.list_active())


def unreachable_health(reason: str) -> Health:
    return {"ok": False, "ts": clock.now_ms(), "error": reason}
