"""Failures in OpenAI's form, {error: {message, type, param, code}}, with the statuses its SDKs turn into exceptions."""

import logging
import secrets
from typing import Any

import orjson
from django.db import DatabaseError
from django.http import JsonResponse
from pydantic import ValidationError

from clawsite.infra import db
from clawsite.infra.errors import ClawError, NotFound
from clawsite.infra.request_body import BodyTooLarge
from sessions_app.sessions.attachments import WrongFileType

log = logging.getLogger(__name__)

# By status, where the failure itself says nothing better.
ERROR_TYPES = {
    401: "invalid_request_error",
    403: "permission_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "server_error",
    504: "server_error",
}
ERROR_CODES = {
    "UNAUTHORIZED": "invalid_api_key",
    "FORBIDDEN": "insufficient_permissions",
    "NOT_FOUND": "not_found",
    "CONFLICT": "conflict",
    "UNAVAILABLE": "service_unavailable",
}
UNKNOWN_AGENT = "UNKNOWN_AGENT_ID"
# How a run failed -> status, code. What is wrong with our own key for the model is not the caller's to mend.
RUN_FAILURES = {
    "rate_limit": (429, "rate_limit_exceeded"),
    "context_overflow": (400, "context_length_exceeded"),
    "format": (400, "model_refused_request"),
    "timeout": (504, "timeout"),
    "internal": (500, "internal_error"),
    "aborted": (400, "aborted"),  # somebody stopped it; an SDK must not try again by itself
    "turns_used_up": (500, "turns_used_up"),
    "invalid_request": (400, "invalid_request"),
    "not_found": (404, "not_found"),
}


class RequestRejected(ClawError):
    """A request whose fault can be named by the parameter it is in."""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.error_code = code
        self.http_status = status


class MethodNotAllowed(RequestRejected):
    """There is something at the address, but it is reached by another method."""

    def __init__(self, allowed: str) -> None:
        super().__init__(f"use {allowed}", code="method_not_allowed", status=405)
        self.allowed = allowed


class CompletionFailed(ClawError):
    """The run ended without an answer."""

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(words or f"the run ended: {reason}")
        self.http_status, self.error_code = RUN_FAILURES.get(reason, (503, "model_unavailable"))


def unknown_model_error(name: str, why: str = "") -> RequestRejected:
    words = why or f"the model {name!r} does not exist; GET /v1/models lists those there are"
    return RequestRejected(words, param="model", code="model_not_found", status=404)


def describe_error(error: Exception) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Status, the `error` object and headers for whatever was raised. What nobody can explain is logged, and told by reference."""
    if isinstance(error, DatabaseError):
        error = db.to_claw_error(error) or error
    match error:
        case orjson.JSONDecodeError():
            return 400, _error_object(400, "the body is not JSON", None, "invalid_json"), {}
        case NotFound() if (error.details or {}).get("code") == UNKNOWN_AGENT:
            return describe_error(unknown_model_error("", error.message))
        case WrongFileType():
            return 400, _error_object(400, error.message, None, "invalid_file"), {}
        case BodyTooLarge():
            return 413, _error_object(413, error.message, None, "request_too_large"), {}
        case ClawError():
            code = getattr(error, "error_code", None)
            code = code or ("rate_limit_exceeded" if error.http_status == 429 else ERROR_CODES.get(error.code))
            shape = _error_object(error.http_status, error.message, getattr(error, "param", None), code)
            headers = {"Allow": error.allowed} if isinstance(error, MethodNotAllowed) else error.retry_headers
            return error.http_status, shape, headers
    reference = secrets.token_hex(4)
    log.error("internal error, reference %s", reference, exc_info=error)
    return 500, _error_object(500, f"internal error (reference {reference})", None, "internal_error"), {}


def error_response(error: Exception) -> JsonResponse:
    status, shape, headers = describe_error(error)
    return JsonResponse({"error": shape}, status=status, headers=headers)


def _error_object(status: int, message: str, param: str | None, code: str | None) -> dict[str, Any]:
    return {"message": message, "type": ERROR_TYPES.get(status, "invalid_request_error"), "param": param, "code": code}


def to_request_rejected(error: ValidationError) -> RequestRejected:
    """With words, place and code. Neither the input, which may hold a secret, nor the branch of a union that was tried is told."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    param = ""
    for part in first["loc"]:
        if isinstance(part, int):
            param += f"[{part}]"
        elif part.isidentifier() and part.islower() and not part.startswith(("str", "list", "tagged")):
            param += f".{part}" if param else part
    words = first["msg"].removeprefix("Value error, ")
    return RequestRejected(f"{param}: {words}" if param else words, param=param, code="invalid_value")
