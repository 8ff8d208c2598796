"""How the installation is doing, and who is online."""

from typing import Any

from typing_extensions import TypedDict

from clawsite.gateway.defaults import default_model
from clawsite.gateway.events import Health
from clawsite.gateway.registry import Call, Nothing, Params, method
from clawsite.gateway.scopes import Scope
from clawsite.infra import db
from sessions_app import selectors
from sessions_app.keys import DEFAULT_AGENT


class HealthParams(Params):
    probe: bool = False


@method("health", scope=Scope.READ)
async def health(call: Call, params: HealthParams) -> Health:
    """The state of the installation, at most a minute old; `probe` reads it now."""
    found: Any = await call.runtime.health(fresh=params.probe)
    return Health(**found)  # type: ignore[typeddict-item]  # made by gateway.health


class StatusParams(Params):
    include_channel_summary: bool = True
    include_cli_projection: bool = False


class StatusAnswer(TypedDict):
    version: str
    uptimeMs: int
    heartbeat: dict[str, Any]
    channelSummary: list[str]
    queuedSystemEvents: list[str]
    sessions: dict[str, Any]
    health: dict[str, Any]


@method("status", scope=Scope.READ)
async def status(call: Call, params: StatusParams) -> StatusAnswer:
    """The state of the installation and one's own latest sessions."""
    page, model = await db.read(lambda: (selectors.list_sessions(call.user, limit=10), default_model()))
    return StatusAnswer(
        version=call.runtime.version,
        uptimeMs=call.runtime.uptime_ms,
        heartbeat={"defaultAgentId": DEFAULT_AGENT, "agents": []},
        channelSummary=[],
        queuedSystemEvents=[],
        sessions={
            "paths": [],
            "count": page.total,
            "defaults": {"model": model, "contextTokens": None},
            "recent": page.rows,
        },
        health=await call.runtime.health(),
    )


@method("system-presence", scope=Scope.READ)
async def system_presence(call: Call, params: Nothing) -> list[dict[str, Any]]:
    """Who is online, over all processes, newest first."""
    return call.runtime.presence.entries()
