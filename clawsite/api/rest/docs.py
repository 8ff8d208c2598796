"""`/api/docs`: the REST API for people to read, and to try when they are signed in.

Made of the OpenAPI document by ourselves: Swagger UI would be 1.5 MB of somebody else's script, to show what a page can show.
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
    """Public, as the document is: both describe the software, not the installation."""
    document = load_openapi()
    context = {"groups": _group_operations(document), "schemas": _list_schemas(document), "version": document["info"]["version"]}
    return render(request, "api/docs.html", context)


def _group_operations(document: dict[str, Any]) -> list[dict[str, Any]]:
    operations = [
        _describe_operation(path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    ordered = sorted(operations, key=lambda operation: operation["tag"])  # stable: within a noun as they are declared
    return [{"name": name, "operations": list(found)} for name, found in groupby(ordered, key=lambda each: each["tag"])]


def _describe_operation(path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    answers = [(status, _response_shape(answer)) for status, answer in operation["responses"].items() if status != "default"]
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "tag": operation["tags"][0],
        "words": operation["description"].rpartition("\n\nScope:")[0],
        "scope": operation["x-scope"],
        "parameters": [{**parameter, "shape": _describe_type(parameter["schema"])} for parameter in operation["parameters"]],
        "body": _schema_name(body) if body else "",
        "answers": answers,
    }


def _response_shape(answer: dict[str, Any]) -> str:
    content = answer.get("content", {}).get("application/json")
    return _schema_name(content["schema"]) if content else ""


def _schema_name(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", schema.get("title", ""))).removeprefix(SCHEMA_REFERENCE)


def _describe_type(schema: dict[str, Any]) -> str:
    """A parameter's type in a few words."""
    if choices := schema.get("enum"):
        return " | ".join(map(str, choices))
    limits = [f"{sign} {schema[name]}" for name, sign in LIMIT_LABELS.items() if name in schema]
    return ", ".join([str(schema.get("type", "")), *limits])


def _list_schemas(document: dict[str, Any]) -> list[tuple[str, str]]:
    shapes = sorted(document["components"]["schemas"].items())
    return [(name, orjson.dumps(shape, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()) for name, shape in shapes]
