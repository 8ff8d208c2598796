"""The REST API: the routers, and how requests are read and answered. Imported with its first request: see `mount`.

It has no rules of its own: every operation ends in the service or selector that the socket's method of the same meaning uses.
"""

from typing import Any, cast

import orjson
from django.http import HttpRequest, HttpResponse
from django.utils.datastructures import MultiValueDict
from ninja import NinjaAPI
from ninja.errors import ValidationError
from ninja.operation import Operation
from ninja.parser import Parser
from ninja.renderers import BaseRenderer
from pydantic.alias_generators import to_camel

from clawsite.api.http.permissions import ApiRequest
from clawsite.api.http.problems import problem_response, to_problem, validation_problem
from clawsite.api.rest import agents, approvals, messages, policies, runs, sessions, tokens
from clawsite.infra.errors import InvalidRequest
from clawsite.infra.text import make_storable
from clawsite.infra.version import version

DESCRIPTION = """What a program does with Clawsite over HTTP. A program sends its token as `Authorization: Bearer …`; a page of
Clawsite sends its cookie, and with every change the header `X-CSRFToken`. Refusals are `application/problem+json`."""


class SanitizingParser(Parser):
    """Gives operations what a database can keep, without the character NUL and half characters. The body was read by `needs`."""

    def parse_body(self, request: HttpRequest) -> Any:
        return cast(ApiRequest, request).given

    def parse_querydict(self, data: "MultiValueDict[str, Any]", list_fields: list[str], request: HttpRequest) -> dict[str, Any]:
        return {name: make_storable(value) for name, value in super().parse_querydict(data, list_fields, request).items()}


class OrjsonRenderer(BaseRenderer):
    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:
        return orjson.dumps(data)


class Api(NinjaAPI):
    def get_openapi_operation_id(self, operation: Operation) -> str:
        """What a generated client calls it."""
        return to_camel(operation.view_func.__name__)


api = Api(
    title="Clawsite",
    version=version(),
    description=DESCRIPTION,
    openapi_url=None,  # both are served by `mount`, which knows where it is mounted
    docs_url=None,
    parser=SanitizingParser(),
    renderer=OrjsonRenderer(),
)
for module in (sessions, messages, runs, approvals, policies, agents, tokens):
    api.add_router("", module.router)


@api.exception_handler(ValidationError)
def handle_validation_error(request: HttpRequest, error: ValidationError) -> HttpResponse:
    return validation_problem(error.errors)


@api.exception_handler(orjson.JSONDecodeError)
def handle_invalid_json(request: HttpRequest, error: orjson.JSONDecodeError) -> HttpResponse:
    return problem_response(InvalidRequest.http_status, InvalidRequest.code, "the body is not JSON")


@api.exception_handler(Exception)
def handle_error(request: HttpRequest, error: Exception) -> HttpResponse:
    return to_problem(error, operation=f"{request.method} {request.path}")
