"""Agents as models: which agent a name means, and `GET /v1/models`."""

from typing import Any

from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from agents.selectors import list_agents
from clawsite.api.http.authentication import caller
from clawsite.api.openai import errors
from clawsite.api.openai.errors import WrongMethod, unknown_model
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra import db
from sessions_app.keys import DEFAULT_AGENT, is_agent_name

OURS = "clawsite"
NAMES = (OURS, "openclaw")  # both are the default agent, and stand before the name of another
HEADERS = ("x-clawsite-agent-id", "x-openclaw-agent-id", "x-openclaw-agent")
DEFAULT = "default"


def agent_meant(request: HttpRequest, model: str) -> str:
    """The agent's id: a header counts for more than the model's name. Whether there is one is found out by whoever uses it."""
    named = next((value.strip() for name in HEADERS if (value := request.headers.get(name))), "")
    agent = (named or agent_of(model)).lower()
    if not is_agent_name(agent):
        raise unknown_model(named or model)
    return agent


def agent_of(model: str) -> str:
    name = model.strip()
    if name.lower() in ("", *NAMES):
        return DEFAULT_AGENT
    for beginning in (*(f"{name}/" for name in NAMES), *(f"{name}:" for name in NAMES), "agent:"):
        if name.lower().startswith(beginning):
            name = name[len(beginning) :]
            break
    return DEFAULT_AGENT if name.lower() == DEFAULT else name


@csrf_exempt  # what is not a GET is told so
async def models(request: HttpRequest) -> JsonResponse:
    """The agents somebody may talk to."""
    if request.method != "GET":
        return errors.answer(WrongMethod("GET"))
    try:
        await caller(request, Scope.READ)
        agents = await db.read(list_agents)
    except Exception as error:
        return errors.answer(error)
    rows = [_row(OURS) for agent in agents if agent.slug == DEFAULT_AGENT]
    rows += [_row(f"{OURS}/{agent.slug}") for agent in agents]
    return JsonResponse({"object": "list", "data": rows})


@csrf_exempt
async def model(request: HttpRequest, name: str) -> JsonResponse:
    if request.method != "GET":
        return errors.answer(WrongMethod("GET"))
    try:
        await caller(request, Scope.READ)
        wanted = agent_of(name).lower()
        found = next((agent for agent in await db.read(list_agents) if agent.slug == wanted), None)
        if found is None:
            raise unknown_model(name)
    except Exception as error:
        return errors.answer(error)
    return JsonResponse(_row(name))


def _row(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": OURS}
