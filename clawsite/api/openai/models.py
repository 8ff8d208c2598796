"""Agents as models: map model names to agents, and `GET /v1/models`."""

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
MODEL_PREFIXES = (MODEL_PREFIX, "openclaw")  # alone, the default agent; otherwise, a prefix before an agent ID
AGENT_HEADERS = ("x-clawsite-agent-id", "x-openclaw-agent-id", "x-openclaw-agent")
DEFAULT_NAME = "default"


def find_requested_agent(request: HttpRequest, model: str) -> str:
    """Return the requested agent ID. Headers take precedence over the model name. The agent may not exist."""
    header = next((value.strip() for name in AGENT_HEADERS if (value := request.headers.get(name))), "")
    agent = (header or parse_agent_id(model)).lower()
    if not is_agent_name(agent):
        raise unknown_model_error(header or model)
    return agent


def parse_agent_id(model: str) -> str:
    name = model.strip()
    if name.lower() in ("", *MODEL_PREFIXES):
        return DEFAULT_AGENT
    for prefix in (*(f"{name}/" for name in MODEL_PREFIXES), *(f"{name}:" for name in MODEL_PREFIXES), "agent:"):
        if name.lower().startswith(prefix):
            name = name[len(prefix) :]
            break
    return DEFAULT_AGENT if name.lower() == DEFAULT_NAME else name


@csrf_exempt  # so that other methods get a 405 instead of a CSRF error
async def list_models(request: HttpRequest) -> JsonResponse:
    """List the agents as models."""
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
        agent_id = parse_agent_id(name).lower()
        if not any(agent.slug == agent_id for agent in await db.read(list_agents)):
            raise unknown_model_error(name)
    except Exception as error:
        return errors.error_response(error)
    return JsonResponse(_to_model_row(name))


def _to_model_row(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": MODEL_PREFIX}
