"""The server's state, and who is online."""

from typing import Any, NotRequired

from django.db.models import Count
from typing_extensions import TypedDict

from agents.selectors import list_agents
from clawsite.gateway.methods.defaults import get_session_default_model
from clawsite.gateway.protocol.event_catalog import Health
from clawsite.gateway.protocol.hello import to_wire_entries
from clawsite.gateway.protocol.params import Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, Nothing, method
from clawsite.infra import clock, db
from sessions_app.keys import DEFAULT_AGENT
from sessions_app.runs import system_events
from sessions_app.sessions import selectors

RECENT_SESSIONS = 10
MAX_QUEUED_EVENTS = 20


class HealthParams(Params):
    probe: bool = False


@method("health", scope=Scope.READ)
async def health(call: Call, params: HealthParams) -> Health:
    """Return the server's state, at most a minute old; `probe` reads it now."""
    return await call.runtime.health.get(fresh=params.probe)


class StatusParams(Params):
    """`includeCliProjection` adds what OpenClaw's command line would otherwise read from the gateway's files."""

    include_channel_summary: bool = True
    include_cli_projection: bool = False


class StatusAnswer(TypedDict):
    """`queuedSystemEvents` has the first characters of the 20 oldest events queued for the next runs of your sessions."""

    version: str
    uptimeMs: int
    heartbeat: dict[str, Any]
    channelSummary: list[str]
    queuedSystemEvents: list[str]
    sessions: dict[str, Any]
    health: Health
    cliProjection: NotRequired[dict[str, Any]]


@method("status", scope=Scope.READ)
async def status(call: Call, params: StatusParams) -> StatusAnswer:
    """Return the server's state and your latest sessions."""
    answer = await db.read(_read_status, call, params)
    return {**answer, "health": await call.runtime.health.get()}


def _read_status(call: Call, params: StatusParams) -> StatusAnswer:
    now, page, agents = clock.now_ms(), selectors.list_sessions(call.user, limit=RECENT_SESSIONS), list_agents()
    recent = [{**row, "age": now - row["updatedAt"], "flags": []} for row in page.rows]
    counts = dict(selectors.list_visible_sessions(call.user).values_list("agent").annotate(count=Count("pk")))
    by_agent = [
        {"agentId": slug, "path": "", "count": count, "recent": [row for row in recent if row["agentId"] == slug]}
        for slug, count in sorted(counts.items())
    ]
    answer = StatusAnswer(
        version=call.runtime.version,
        uptimeMs=call.runtime.uptime_ms,
        heartbeat={
            "defaultAgentId": DEFAULT_AGENT,
            "agents": [{"agentId": agent.slug, "enabled": False, "every": "disabled", "everyMs": None} for agent in agents],
        },
        channelSummary=[],
        queuedSystemEvents=system_events.list_pending_texts(
            call.user, limit=MAX_QUEUED_EVENTS, characters=selectors.PREVIEW_CHARACTERS
        ),
        sessions={
            "paths": [],
            "count": page.total,
            "defaults": {"model": get_session_default_model(), "contextTokens": None},
            "recent": recent,
            "byAgent": by_agent,
        },
        health={},
    )
    if params.include_cli_projection:
        rows = [{"id": agent.slug, "name": agent.name} for agent in agents]
        answer["cliProjection"] = {"agents": {"defaultId": DEFAULT_AGENT, "rows": rows}}
    return answer


@method("system-presence", scope=Scope.READ)
async def system_presence(call: Call, params: Nothing) -> list[dict[str, Any]]:
    """List who is online across all processes, newest first."""
    return to_wire_entries(call.runtime.presence.entries(), call.connection.dialect)
