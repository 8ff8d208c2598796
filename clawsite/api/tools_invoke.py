"""`POST /tools/invoke`: one tool call by a program, with the same checks as a call by a model. The format is OpenClaw's."""

from typing import Any
from uuid import uuid4

import orjson
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from clawsite.api.http.authentication import authenticate
from clawsite.api.http.long_requests import run_while_authorized
from clawsite.gateway.protocol.params import Id, IdempotencyKey, Key
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server import runtime
from clawsite.gateway.server.session_address import to_address
from clawsite.gateway.server.tool_invocation import DEFAULT_TIMEOUT_MS, TimeoutMs, invoke_and_wait
from clawsite.infra.bounded_json import read_json
from clawsite.infra.errors import ClawError, InvalidRequest
from clawsite.infra.request_body import parse_body
from clawsite.infra.validation import describe_first_error
from clawsite.routing.tool_invocation import ToolInvocation
from sessions_app.runs.results import InvocationOutcome
from tools_app.policy.evaluation import NOT_OFFERED

NOT_ALLOWED = "tool_not_allowed"
MAX_BODY_BYTES = 2 << 20
MAX_VALUES = 20_000


class InvokeBody(BaseModel):
    """`action` is added to the arguments. The session defaults to the caller's main session with the agent."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)

    tool: str = Field(min_length=1, max_length=128)
    action: str | None = Field(None, max_length=128)
    args: dict[str, Any] = Field(default_factory=dict)
    session_key: Key | None = None
    session_id: Id | None = None
    agent_id: Id | None = None
    idempotency_key: IdempotencyKey | None = None
    timeout_ms: TimeoutMs = DEFAULT_TIMEOUT_MS
    dry_run: bool = False

    @field_validator("dry_run")
    @classmethod
    def _reject_dry_run(cls, value: bool) -> bool:
        if value:
            raise PydanticCustomError("not_here", "Not supported; use tools.effective to list the allowed tools")
        return value

    @model_validator(mode="before")
    @classmethod
    def _accept_name(cls, data: Any) -> Any:
        if isinstance(data, dict) and "name" in data and "tool" not in data:
            return {**{key: value for key, value in data.items() if key != "name"}, "tool": data["name"]}
        return data


@csrf_exempt  # tokens need no CSRF check; `authenticate` does it for cookies
async def invoke_tool(request: HttpRequest) -> JsonResponse:
    """Return 200 {ok, result}, or {ok: false, error: {type, message, layer?}} with one of these:

    400 failed tool or invalid body   401 invalid credentials   403 denied by `layer`, or missing scope
    404 unknown tool or session, or unavailable tool   409 the same key with another body
    429 too many unfinished runs or failed attempts   503 temporarily unavailable   504 timeout
    429 and 503 set Retry-After, if the time is known.
    """
    if request.method != "POST":
        return _error_response(405, "method_not_allowed", "use POST", headers={"Allow": "POST"})
    try:
        caller = await authenticate(request, Scope.WRITE)
        body = await parse_body(request, MAX_BODY_BYTES, _parse_body)
        args = {**body.args, "action": body.action} if body.action else body.args
        run_id = body.idempotency_key or f"invoke-{uuid4().hex}"
        to = to_address(body.session_key, body.session_id, body.agent_id)
        gateway = await runtime.get_runtime()
        call = invoke_and_wait(ToolInvocation(caller.user, body.tool, args, run_id, to), gateway.hub.run_waits, body.timeout_ms)
        return _build_response(await run_while_authorized(gateway, caller, call), run_id)
    except orjson.JSONDecodeError:
        return _error_response(400, "invalid_request", "the body is not valid JSON")
    except ClawError as error:
        return _error_response(error.http_status, error.code.lower(), error.message, headers=error.retry_headers)


def _parse_body(body: bytes) -> InvokeBody:
    try:
        return InvokeBody.model_validate(read_json(body, MAX_VALUES))
    except ValidationError as error:
        raise InvalidRequest(describe_first_error(error)) from None


def _build_response(outcome: InvocationOutcome, run_id: str) -> JsonResponse:
    if not outcome.code:
        return JsonResponse({"ok": True, "runId": run_id, "result": outcome.result})
    status = 504 if outcome.code == "timeout" else 400
    if outcome.code == NOT_ALLOWED:
        status = 404 if outcome.layer == NOT_OFFERED else 403
    return _error_response(status, outcome.code, outcome.message, layer=outcome.layer, run_id=run_id)


def _error_response(
    status: int, kind: str, message: str, *, layer: str = "", run_id: str = "", headers: dict[str, str] | None = None
) -> JsonResponse:
    error = {"type": kind, "message": message, **({"layer": layer} if layer else {})}
    content = {"ok": False, "error": error, **({"runId": run_id} if run_id else {})}
    return JsonResponse(content, status=status, headers=headers or {})
