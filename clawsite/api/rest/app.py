"""The REST API: routers, request parsing, error handling. Not imported at startup: see `mount`.

Every operation calls the same service or selector as the corresponding WebSocket method.
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

DESCRIPTION = """Use Clawsite from programs over HTTP. Programs send a token as `Authorization: Bearer …`; Clawsite's own pages send
the session cookie and, with every change, the header `X-CSRFToken`. Errors are `application/problem+json`."""


class SanitizingParser(Parser):
    """Removes NUL and lone surrogates, which the database can't store. RequireScope has already parsed the body."""

    def parse_body(self, request: HttpRequest) -> Any:
        return cast(ApiRequest, request).parsed_body

    def parse_querydict(self, data: "MultiValueDict[str, Any]", list_fields: list[str], request: HttpRequest) -> dict[str, Any]:
        return {name: make_storable(value) for name, value in super().parse_querydict(data, list_fields, request).items()}


class OrjsonRenderer(BaseRenderer):
    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:
        return orjson.dumps(data)


class Api(NinjaAPI):
    def get_openapi_operation_id(self, operation: Operation) -> str:
        """Generated clients use this as the method name."""
        return to_camel(operation.view_func.__name__)


api = Api(
    title="Clawsite",
    version=version(),
    description=DESCRIPTION,
    openapi_url=None,  # `mount` serves both, because it knows the path prefix
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
    return problem_response(InvalidRequest.http_status, InvalidRequest.code, "the body is not valid JSON")


@api.exception_handler(Exception)
def handle_error(request: HttpRequest, error: Exception) -> HttpResponse:
    return to_problem(error, operation=f"{request.method} {request.path}")
