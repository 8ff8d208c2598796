"""Errors of the REST API: `application/problem+json` (RFC 9457) with the same codes as the WebSocket protocol.

A `ClawError` has its own status and code. Any other exception is a bug: it is logged, and the response has a reference to the
log entry.
"""

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NotRequired

import orjson
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from typing_extensions import TypedDict

from clawsite.gateway.protocol.errors import describe_error
from clawsite.infra import db
from clawsite.infra.errors import ClawError, InvalidRequest, NotFound

MEDIA_TYPE = "application/problem+json"
MAX_FAULTS = 20


class Fault(TypedDict):
    """An invalid value: its location, such as `body/label` or `query/limit`, and what is wrong with it."""

    field: str
    message: str


class Problem(TypedDict):
    """`detail` says what is wrong and what to do. Retry only if `retryable` is true, and after `retryAfterMs`."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: NotRequired[list[Fault]]
    details: NotRequired[dict[str, Any]]
    retryable: NotRequired[bool]
    retryAfterMs: NotRequired[int]


def to_problem(error: Exception, *, operation: str) -> HttpResponse:
    """Return the error response for any exception."""
    if isinstance(error, DatabaseError):
        error = db.to_claw_error(error) or error
    status = error.http_status if isinstance(error, ClawError) else HTTPStatus.INTERNAL_SERVER_ERROR
    described = describe_error(error, method=operation)
    extra = {name: described[name] for name in ("details", "retryable", "retryAfterMs") if name in described}
    response = problem_response(status, described["code"], described["message"], **extra)
    for name, value in error.retry_headers.items() if isinstance(error, ClawError) else ():
        response[name] = value
    return response


def validation_problem(faults: Iterable[Mapping[str, Any]]) -> HttpResponse:
    """Return an error response that lists all invalid fields. Their values are left out, because one may be a secret."""
    errors = [Fault(field=_field_path(fault["loc"]), message=fault["msg"]) for fault in faults][:MAX_FAULTS]
    first = errors[0]
    return problem_response(InvalidRequest.http_status, InvalidRequest.code, f"{first['field']}: {first['message']}", errors=errors)


def _field_path(location: Sequence[int | str]) -> str:
    source, *path = location
    if source == "body":
        path = path[1:]  # without the name of the view's parameter
    return "/".join(str(part) for part in (source, *path))


def problem_response(status: int, code: str, detail: str, **more: Any) -> HttpResponse:
    title = HTTPStatus(status).phrase
    body = {"type": "about:blank", "title": title, "status": int(status), "detail": detail, "code": code, **more}
    response = HttpResponse(orjson.dumps(body), status=status, content_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})
    if status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = "Bearer"
    return response


def path_not_found(request: HttpRequest) -> HttpResponse:
    return problem_response(NotFound.http_status, NotFound.code, f"unknown path {request.path}; see /api/docs")
