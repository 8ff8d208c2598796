"""`/api/docs`: documentation of the REST API. Signed-in users can try the operations.

Rendered from the OpenAPI document without Swagger UI, which would add 1.5 MB of third-party JavaScript.
"""

from itertools import groupby
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from clawsite.api.rest.mount import load_openapi

LIMIT_LABELS = {"minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤", "maxLength": "length ≤"}
SCHEMA_REFERENCE = "#/components/schemas/"


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    """Public like the document itself: both describe the software, not this server."""
    document = load_openapi()
    context = {"groups": _group_operations(document), "schemas": _list_schemas(document), "version": document["info"]["version"]}
    return render(request, "api/docs.html", context)


def _group_operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    operations = [
        _describe_operation(path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    ordered = sorted(operations, key=lambda operation: operation["tag"])  # stable: keeps the order of declaration per tag
    return [{"name": name, "operations": list(group)} for name, group in groupby(ordered, key=lambda each: each["tag"])]


def _describe_operation(path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    responses = [(status, _response_schema(answer)) for status, answer in operation["responses"].items() if status != "default"]
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "tag": operation["tags"][0],
        "description": operation["description"].rpartition("\n\nScope:")[0],
        "scope": operation["x-scope"],
        "parameters": [{**parameter, "type": _describe_type(parameter["schema"])} for parameter in operation["parameters"]],
        "body": _schema_name(body) if body else "",
        "responses": responses,
    }


def _response_schema(response: dict[str, Any]) -> str:
    content = response.get("content", {}).get("application/json")
    return _schema_name(content["schema"]) if content else ""


def _schema_name(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", schema.get("title", ""))).removeprefix(SCHEMA_REFERENCE)


def _describe_type(schema: dict[str, Any]) -> str:
    """Describe a parameter's type and limits."""
    if choices := schema.get("enum"):
        return " | ".join(map(str, choices))
    limits = [f"{sign} {schema[name]}" for name, sign in LIMIT_LABELS.items() if name in schema]
    return ", ".join([str(schema.get("type", "")), *limits])


def _list_schemas(document: dict[str, Any]) -> list[tuple[str, str]]:
    schemas = sorted(document["components"]["schemas"].items())
    return [(name, orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()) for name, schema in schemas]
