"""Agents over REST."""

from typing import Annotated, Any

from ninja import Path, Router
from typing_extensions import TypedDict

from agents import selectors
from agents.models import Agent
from clawsite.api.http.pagination import CursorText, Limit, Page, decode_cursor, encode_cursor, parse_number
from clawsite.api.http.permissions import ApiRequest, RequireScope
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra import db
from sessions_app.keys import DEFAULT_AGENT

router = Router(tags=["agents"])


class AgentOut(TypedDict):
    """`model` is null if the agent uses the server default."""

    id: str
    name: str
    model: str | None
    thinkingLevel: str | None
    default: bool


@router.get("/agents", response=Page[AgentOut], auth=RequireScope(Scope.READ))
async def list_agents(request: ApiRequest, limit: Limit = 50, cursor: CursorText = "") -> Any:
    """List the agents, the default agent first."""
    position = decode_cursor(cursor, parse_number)
    start = position[0] if position else 0
    agents = await db.read(selectors.list_agents)
    page = agents[start : start + limit]
    next_cursor = encode_cursor(start + limit) if len(agents) > start + limit else None
    return Page(items=[_to_wire(agent) for agent in page], next=next_cursor)


@router.get("/agents/{agent}", response=AgentOut, auth=RequireScope(Scope.READ))
async def get_agent(request: ApiRequest, agent: Annotated[str, Path(max_length=64)]) -> Any:
    """Get an agent."""
    return _to_wire(await db.read(selectors.find_agent, agent))


def _to_wire(agent: Agent) -> AgentOut:
    thinking = agent.thinking_level or None
    is_default = agent.slug == DEFAULT_AGENT
    return AgentOut(id=agent.slug, name=agent.name, model=agent.model or None, thinkingLevel=thinking, default=is_default)
