"""Agents as models: which agent a name means, and `GET /v1/models`."""

from typing import Any

from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from agents.selectors import list_agents
from clawsite.api.http.authentication import authenticate_user
from clawsite.api.openai import errors
from clawsite.api.openai.errors import MethodNotAllowed, unknown_model_error
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra import db
from sessions_app.keys import DEFAULT_AGENT, is_agent_name

MODEL_PREFIX = "clawsite"
MODEL_PREFIXES = (MODEL_PREFIX, "openclaw")  # both are the default agent, and stand before the name of another
AGENT_HEADERS = ("x-clawsite-agent-id", "x-openclaw-agent-id", "x-openclaw-agent")
DEFAULT_NAME = "default"


def find_requested_agent(request: HttpRequest, model: str) -> str:
    """The agent's id: a header counts for more than the model's name. Whether there is one is found out by whoever uses it."""
    named = next((value.strip() for name in AGENT_HEADERS if (value := request.headers.get(name))), "")
    agent = (named or parse_agent_id(model)).lower()
    if not is_agent_name(agent):
        raise unknown_model_error(named or model)
    return agent


def parse_agent_id(model: str) -> str:
    name = model.strip()
    if name.lower() in ("", *MODEL_PREFIXES):
        return DEFAULT_AGENT
    for beginning in (*(f"{name}/" for name in MODEL_PREFIXES), *(f"{name}:" for name in MODEL_PREFIXES), "agent:"):
        if name.lower().startswith(beginning):
            name = name[len(beginning) :]
            break
    return DEFAULT_AGENT if name.lower() == DEFAULT_NAME else name


@csrf_exempt  # what is not a GET is told so
async def list_models(request: HttpRequest) -> JsonResponse:
    """The agents somebody may talk to."""
    if request.method != "GET":
        return errors.error_response(MethodNotAllowed("GET"))
    try:
        await authenticate_user(request, Scope.READ)
        agents = await db.read(list_agents)
    except Exception as error:
        return errors.error_response(error)
    rows = [_to_model_row(MODEL_PREFIX) for agent in agents if agent.slug == DEFAULT_AGENT]
    rows += [_to_model_row(f"{MODEL_PREFIX}/{agent.slug}") for agent in agents]
    return JsonResponse({"object": "list", "data": rows})


@csrf_exempt
async def get_model(request: HttpRequest, name: str) -> JsonResponse:
    if request.method != "GET":
        return errors.error_response(MethodNotAllowed("GET"))
    try:
        await authenticate_user(request, Scope.READ)
        wanted = parse_agent_id(name).lower()
        found = next((agent for agent in await db.read(list_agents) if agent.slug == wanted), None)
        if found is None:
            raise unknown_model_error(name)
    except Exception as error:
        return errors.error_response(error)
    return JsonResponse(_to_model_row(name))


def _to_model_row(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": MODEL_PREFIX}
