"""Errors in OpenAI's format, {error: {message, type, param, code}}, with the statuses that its SDKs map to exceptions."""

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

# Default error type by status.
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
# Failure kind of a run -> (status, code). Problems with the server's own API key are not listed, because callers can't fix them.
RUN_FAILURES = {
    "rate_limit": (429, "rate_limit_exceeded"),
    "context_overflow": (400, "context_length_exceeded"),
    "format": (400, "model_refused_request"),
    "timeout": (504, "timeout"),
    "internal": (500, "internal_error"),
    "aborted": (400, "aborted"),  # stopped by a user; 400, so that SDKs don't retry
    "turns_used_up": (500, "turns_used_up"),
    "invalid_request": (400, "invalid_request"),
    "not_found": (404, "not_found"),
}


class RequestRejected(ClawError):
    """A parameter of the request is invalid."""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param = param
        self.error_code = code
        self.http_status = status


class MethodNotAllowed(RequestRejected):
    """The path exists but needs another HTTP method."""

    def __init__(self, allowed: str) -> None:
        super().__init__(f"use {allowed}", code="method_not_allowed", status=405)
        self.allowed = allowed


class CompletionFailed(ClawError):
    """The run ended without an answer."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message or f"the run failed: {kind}")
        self.http_status, self.error_code = RUN_FAILURES.get(kind, (503, "model_unavailable"))


def unknown_model_error(name: str, message: str = "") -> RequestRejected:
    message = message or f"the model {name!r} does not exist; GET /v1/models lists the available models"
    return RequestRejected(message, param="model", code="model_not_found", status=404)


def describe_error(error: Exception) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return status, `error` object and headers for any exception. Unexpected ones are logged with a reference."""
    if isinstance(error, DatabaseError):
        error = db.to_claw_error(error) or error
    match error:
        case orjson.JSONDecodeError():
            return 400, _error_object(400, "the body is not valid JSON", None, "invalid_json"), {}
        case NotFound() if (error.details or {}).get("code") == UNKNOWN_AGENT:
            return describe_error(unknown_model_error("", error.message))
        case WrongFileType():
            return 400, _error_object(400, error.message, None, "invalid_file"), {}
        case BodyTooLarge():
            return 413, _error_object(413, error.message, None, "request_too_large"), {}
        case ClawError():
            code = getattr(error, "error_code", None)
            code = code or ("rate_limit_exceeded" if error.http_status == 429 else ERROR_CODES.get(error.code))
            content = _error_object(error.http_status, error.message, getattr(error, "param", None), code)
            headers = {"Allow": error.allowed} if isinstance(error, MethodNotAllowed) else error.retry_headers
            return error.http_status, content, headers
    reference = secrets.token_hex(4)
    log.error("internal error, reference %s", reference, exc_info=error)
    return 500, _error_object(500, f"internal error (reference {reference})", None, "internal_error"), {}


def error_response(error: Exception) -> JsonResponse:
    status, content, headers = describe_error(error)
    return JsonResponse({"error": content}, status=status, headers=headers)


def _error_object(status: int, message: str, param: str | None, code: str | None) -> dict[str, Any]:
    return {"message": message, "type": ERROR_TYPES.get(status, "invalid_request_error"), "param": param, "code": code}


def to_request_rejected(error: ValidationError) -> RequestRejected:
    """Convert the first error. Leave out the input, which may hold a secret, and pydantic's names of union branches."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    param = ""
    for part in first["loc"]:
        if isinstance(part, int):
            param += f"[{part}]"
        elif part.isidentifier() and part.islower() and not part.startswith(("str", "list", "tagged")):
            param += f".{part}" if param else part
    message = first["msg"].removeprefix("Value error, ")
    return RequestRejected(f"{param}: {message}" if param else message, param=param, code="invalid_value")
