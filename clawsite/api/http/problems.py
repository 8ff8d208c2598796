"""Refusals of the REST API: `application/problem+json` (RFC 9457) with the code that the socket has for the same failure.

A `ClawError` knows its status and its code, so there is no second table. What nobody can explain is a bug: logged, and told by
a reference.
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
    """Where a value was wrong, such as `body/label` or `query/limit`, and what was wrong with it."""

    field: str
    message: str


class Problem(TypedDict):
    """`detail` says what was wrong and what to do. Send it again only if `retryable` is true, and not before `retryAfterMs`."""

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
    """The answer for whatever was raised."""
    if isinstance(error, DatabaseError):
        error = db.to_claw_error(error) or error
    status = error.http_status if isinstance(error, ClawError) else HTTPStatus.INTERNAL_SERVER_ERROR
    shape = describe_error(error, method=operation)
    told = {name: shape[name] for name in ("details", "retryable", "retryAfterMs") if name in shape}
    response = problem_response(status, shape["code"], shape["message"], **told)
    for name, value in error.retry_headers.items() if isinstance(error, ClawError) else ():
        response[name] = value
    return response


def validation_problem(faults: Iterable[Mapping[str, Any]]) -> HttpResponse:
    """Values that were wrong, all named. The values themselves are not repeated: one may be a secret."""
    errors = [Fault(field=_field_path(fault["loc"]), message=fault["msg"]) for fault in faults][:MAX_FAULTS]
    first = errors[0]
    return problem_response(InvalidRequest.http_status, InvalidRequest.code, f"{first['field']}: {first['message']}", errors=errors)


def _field_path(place: Sequence[int | str]) -> str:
    where, *inside = place
    if where == "body":
        inside = inside[1:]  # without our own name for the whole of it
    return "/".join(str(part) for part in (where, *inside))


def problem_response(status: int, code: str, detail: str, **more: Any) -> HttpResponse:
    title = HTTPStatus(status).phrase
    body = {"type": "about:blank", "title": title, "status": int(status), "detail": detail, "code": code, **more}
    response = HttpResponse(orjson.dumps(body), status=status, content_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})
    if status == HTTPStatus.UNAUTHORIZED:
        response["WWW-Authenticate"] = "Bearer"
    return response


def path_not_found(request: HttpRequest) -> HttpResponse:
    return problem_response(NotFound.http_status, NotFound.code, f"there is nothing at {request.path}; see /api/docs")
