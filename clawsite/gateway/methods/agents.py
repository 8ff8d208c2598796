"""List agents, and get an agent's name."""

from typing import Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

from agents.models import Agent
from agents.selectors import choose_model_name, find_agent, list_agents
from clawsite.gateway.protocol.params import Id, Key, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, Nothing, method
from clawsite.gateway.server.session_address import to_address
from clawsite.infra import db
from clawsite.routing.inbound import find_session_or_none
from sessions_app.keys import DEFAULT_AGENT, parse_key


class AgentRow(TypedDict):
    """An agent. `model` is the agent's own or the server default."""

    id: str
    kind: Literal["agent"]
    name: str
    identity: dict[str, Any]
    model: dict[str, str]


class AgentsAnswer(TypedDict):
    defaultId: str
    mainKey: str
    scope: Literal["per-sender", "global"]
    agents: list[AgentRow]


@method("agents.list", scope=Scope.READ)
async def agents_list(call: Call, params: Nothing) -> AgentsAnswer:
    """List the available agents, the default one first."""
    return await db.read(list_agent_rows)


def list_agent_rows() -> AgentsAnswer:
    agents = [_row(agent) for agent in list_agents()]
    return AgentsAnswer(defaultId=DEFAULT_AGENT, mainKey="main", scope="per-sender", agents=agents)


def _row(agent: Agent) -> AgentRow:
    model = {"primary": choose_model_name(agent)}
    return AgentRow(id=agent.slug, kind="agent", name=agent.name, identity={"name": agent.name}, model=model)


class IdentityParams(Params):
    """Identify the agent by ID or by one of its sessions. Default: the default agent."""

    agent_id: Id | None = None
    session_key: Key | None = Field(None)


class IdentityAnswer(TypedDict):
    agentId: str
    name: str
    nameSource: Literal["config"]
    avatarStatus: Literal["none"]


@method("agent.identity.get", scope=Scope.READ)
async def identity(call: Call, params: IdentityParams) -> IdentityAnswer:
    """Return an agent's name. Agents have no avatars."""
    return await db.read(_find_identity, call, params)


def _find_identity(call: Call, params: IdentityParams) -> IdentityAnswer:
    slug = params.agent_id or DEFAULT_AGENT
    if params.session_key and not params.agent_id:
        address = to_address(params.session_key, None, None)
        session = find_session_or_none(call.user, address)
        slug = session.agent if session else parse_key(address.own_key()).agent
    agent = find_agent(slug)
    return IdentityAnswer(agentId=agent.slug, name=agent.name, nameSource="config", avatarStatus="none")
