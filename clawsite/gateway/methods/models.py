"""Which agents there are, and which models they could use."""

from typing import Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from agents.model_choice import offered_models
from agents.selectors import list_agents
from clawsite.gateway.addressing import Id
from clawsite.gateway.registry import Call, Nothing, Params, method
from clawsite.gateway.scopes import Scope
from clawsite.infra import db
from sessions_app.keys import DEFAULT_AGENT


class ModelsParams(Params):
    agent_id: Id | None = None
    view: Literal["default", "configured", "provider-config", "all"] = "default"
    refresh: bool = False
    prepared_only: bool = Field(False)


class Model(TypedDict):
    id: str
    name: str
    provider: str
    reasoning: bool
    available: bool
    contextWindow: NotRequired[int]
    unavailableReason: NotRequired[str]


class ModelsAnswer(TypedDict):
    models: list[Model]


@method("models.list", scope=Scope.READ)
async def models_list(call: Call, params: ModelsParams) -> ModelsAnswer:
    """The models one can choose. `configured` leaves out those whose key is missing."""
    rows = await db.read(_models)
    if params.view == "configured":
        rows = [row for row in rows if row["available"]]
    return ModelsAnswer(models=rows)


def _models() -> list[Model]:
    return [Model(**row) for row in offered_models()]


class Agent(TypedDict):
    id: str
    name: str
    identity: dict[str, Any]
    model: str | None


class AgentsAnswer(TypedDict):
    defaultId: str
    mainKey: str
    scope: Literal["per-sender", "global"]
    agents: list[Agent]


@method("agents.list", scope=Scope.READ)
async def agents_list(call: Call, params: Nothing) -> AgentsAnswer:
    """The agents one can talk to, the default one first."""
    agents = [
        Agent(id=agent.slug, name=agent.name, identity={"name": agent.name}, model=agent.model or None)
        for agent in await db.read(list_agents)
    ]
    return AgentsAnswer(defaultId=DEFAULT_AGENT, mainKey="main", scope="per-sender", agents=agents)
