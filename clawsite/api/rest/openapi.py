"""The OpenAPI document: what ninja makes of the operations, with what it cannot know added: scopes, credentials, refusals."""

from typing import Any

from django.conf import settings
from pydantic import TypeAdapter

from clawsite.api.http.permissions import RequireScope
from clawsite.api.http.problems import MEDIA_TYPE, Problem
from clawsite.api.rest.app import api

ERROR_DESCRIPTION = "A refusal. `code` is the socket's for the same failure"


def build_document(prefix: str) -> dict[str, Any]:
    made: dict[str, Any] = dict(api.get_openapi_schema(path_prefix=prefix.lstrip("/")))
    shapes = TypeAdapter(Problem).json_schema(ref_template="#/components/schemas/{model}")
    components = made["components"]
    components["schemas"] |= {**shapes.pop("$defs"), "Problem": shapes}
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "An access token of an account, or the gateway token"},
        "cookie": {
            "type": "apiKey",
            "in": "cookie",
            "name": settings.SESSION_COOKIE_NAME,
            "description": "The sign-in of a browser; changes also need the header X-CSRFToken",
        },
    }
    refusal = {"description": ERROR_DESCRIPTION, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
    scopes = _read_scopes()
    for methods in made["paths"].values():
        for operation in methods.values():
            scope = scopes[operation["operationId"]]
            operation["security"] = [{"token": []}, {"cookie": []}]
            operation["x-scope"] = scope
            operation["description"] = f"{operation.get('description', '')}\n\nScope: `{scope}`".strip()
            operation["responses"]["default"] = refusal
    return made


def _read_scopes() -> dict[str, str]:
    """Operation id -> the scope it needs. An operation without one does not get this far."""
    found = {}
    for router in api._get_bound_routers():
        for view in router.path_operations.values():
            for operation in view.operations:
                guard = next(auth for auth in operation.auth_callbacks if isinstance(auth, RequireScope))
                found[api.get_openapi_operation_id(operation)] = guard.scopes[0].value
    return found
