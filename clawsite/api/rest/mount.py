"""Where the REST API hangs in the web process. It takes 0.5 s to load, most of it ninja, so no process waits for it at its start:
it is loaded a little later (clawsite.asgi), or with its first request.
"""

import asyncio
import functools
import inspect
import threading
from typing import Any

import orjson
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import Resolver404, URLResolver
from django.urls.resolvers import RegexPattern
from django.views.decorators.csrf import csrf_exempt

from clawsite.api.http.problems import path_not_found, problem_response
from clawsite.infra.errors import InvalidRequest

PREFIX = "/api/"
_loading = threading.Lock()


def load_operations() -> URLResolver:
    """Every path of the API, below its prefix. Loads it, once: who asks meanwhile waits."""
    with _loading:
        return _operations()


@functools.cache
def _operations() -> URLResolver:
    from clawsite.api.rest.app import api

    return URLResolver(RegexPattern(r"^"), api.urls[0])


@functools.cache
def load_openapi() -> dict[str, Any]:
    from clawsite.api.rest.openapi import build_document

    return build_document(PREFIX)


@csrf_exempt  # a token needs none; a cookie is checked by `caller`
async def handle_request(request: HttpRequest, path: str) -> HttpResponseBase:
    """Hand the request to its operation."""
    known = await asyncio.to_thread(load_operations)  # on a thread, since the first may have to wait
    try:
        found = known.resolve(path) if "\0" not in path else None
    except Resolver404:
        found = None
    if found is None:
        return path_not_found(request)
    found.route = f"{PREFIX.lstrip('/')}{found.route}"
    request.resolver_match = found  # what is counted is the operation, not the mount
    answer = found.func(request, *found.args, **found.kwargs)
    response: HttpResponseBase = await answer if inspect.isawaitable(answer) else answer
    if response.status_code == 405:
        allowed = response["Allow"]
        response = problem_response(405, InvalidRequest.code, f"use {allowed} here")
        response["Allow"] = allowed
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def openapi_json(request: HttpRequest) -> HttpResponse:
    """Public: it describes the software, not the installation."""
    content = orjson.dumps(load_openapi(), option=orjson.OPT_NON_STR_KEYS)  # statuses are numbers
    return HttpResponse(content, content_type="application/json", headers={"Cache-Control": "public, max-age=300"})
