"""Mount the REST API in the web process. The first request loads it: ninja takes 10 MB and 0.3 s, and many servers never use it."""

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
    """Return the resolver of all API paths below the prefix. The first call loads the API; concurrent calls wait."""
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


@csrf_exempt  # tokens need no CSRF check; `authenticate` does it for cookies
async def handle_request(request: HttpRequest, path: str) -> HttpResponseBase:
    """Route the request to its operation."""
    resolver = await asyncio.to_thread(load_operations)  # on a thread, because the first call takes a while
    try:
        match = resolver.resolve(path) if "\0" not in path else None
    except Resolver404:
        match = None
    if match is None:
        return path_not_found(request)
    match.route = f"{PREFIX.lstrip('/')}{match.route}"
    request.resolver_match = match  # so that metrics count the operation, not the mount
    result = match.func(request, *match.args, **match.kwargs)
    response: HttpResponseBase = await result if inspect.isawaitable(result) else result
    if response.status_code == 405:
        allowed = response["Allow"]
        response = problem_response(405, InvalidRequest.code, f"method not allowed; use {allowed}")
        response["Allow"] = allowed
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def openapi_json(request: HttpRequest) -> HttpResponse:
    """Public, because it describes the software, not this server."""
    content = orjson.dumps(load_openapi(), option=orjson.OPT_NON_STR_KEYS)  # statuses are numbers
    return HttpResponse(content, content_type="application/json", headers={"Cache-Control": "public, max-age=300"})
