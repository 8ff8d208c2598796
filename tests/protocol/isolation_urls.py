"""What kind of object each URL, query or form parameter refers to. Read by test_isolation_http.py.

URLs come from the URLconf and, below /api/, from the OpenAPI document. A URL that is in no table fails the test.
Admin pages are not listed: their URLs contain the model.
"""

import re
from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from clawsite.api.openai.runs import SESSION_HEADERS
from tests.protocol.isolation import NEW, IsolationCase
from tests.protocol.isolation_params import EXAMPLES, NAME, PLAIN, REFS, Own

JSON = "application/json"
RUN = ("run number", "open run number")

# URL -> its part -> kinds of objects it refers to.
IN_PATH: dict[str, dict[str, tuple[str, ...]]] = {
    "account/tokens/<int:pk>/revoke/": {"pk": ("token number",)},
    "account/browsers/<int:pk>/sign-out/": {"pk": ("browser number",)},
    "account/devices/<int:pk>/revoke/": {"pk": ("device number",)},
    "account/devices/requests/<str:pk>/approve/": {"pk": ("pairing id",)},
    "account/devices/requests/<str:pk>/reject/": {"pk": ("pairing id",)},
    "account/webhooks/<int:pk>/agree/": {"pk": ("hook number",)},
    "account/webhooks/<int:pk>/refuse/": {"pk": ("hook number",)},
    "attachments/<uuid:attachment_id>/": {"attachment_id": ("attachment id",)},
    "runs/<int:pk>/": {"pk": RUN},
    "runs/<int:pk>/export/": {"pk": RUN},
    "policies/calls/<int:pk>/": {"pk": ("call number",)},
    "approvals/grants/<int:pk>/revoke/": {"pk": ("grant number",)},
    "approvals/<uuid:pk>/": {"pk": ("approval id",)},
    "approvals/<uuid:pk>/menu/<slug:which>/": {"pk": ("approval id",)},
    "approvals/<uuid:pk>/in-chat/": {"pk": ("approval id",)},
    "approvals/<uuid:pk>/answer/": {"pk": ("approval id",)},
    "approvals/<uuid:pk>/extend/": {"pk": ("approval id",)},
    "approvals/<uuid:pk>/drop/": {"pk": ("approval id",)},
    "v1/responses/<str:response_id>": {"response_id": ("run id",)},
    "responses/<str:response_id>": {"response_id": ("run id",)},
    "admin/r/<path:content_type_id>/<path:object_id>/": {"object_id": ("session id", "approval id")},
}

# Values of the other parts of these URLs.
FIXED = {"content_type_id": "1", "which": "always"}

# API clients can also select sessions by header. The caller's own keys and `user` are tested in test_isolation_http.py: an unknown
# one creates a session, and the response needs a worker, which is not running here.
HEADERS = "headers"
CHAT: dict[str, Any] = {"model": "clawsite", "messages": [{"role": "user", "content": "hi"}]}
INPUT: dict[str, Any] = {"model": "clawsite", "input": "hi"}
RESPONSES: list[tuple[str, str, dict[str, Any]]] = [
    *((JSON, kind, {**INPUT, "previous_response_id": NAME}) for kind in ("run id", "open run id")),
    *((JSON, "shared key", {**INPUT, HEADERS: {header: NAME}}) for header in SESSION_HEADERS),
]

# URL -> query or form. NAME stands for the object.
IN_FORM: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "stops/stop/": [("POST", "open run number", {"scope": "run", "subject": NAME, "reason": "no"})],
    "stops/resume/": [("POST", "open run number", {"scope": "run", "subject": NAME, "reason": "no"})],
    "policies/calls/": [
        ("GET", "open run id", {"run": NAME, "call": Own("call id")}),
        ("GET", "call id", {"run": Own("open run id"), "call": NAME}),
    ],
    "policies/": [("GET", "words", {"agent": NAME})],
    "approvals/": [("GET", "open session id", {"chat": NAME}), ("GET", "words", {"program": NAME})],
    "approvals/live/": [("GET", "approval id", {"shown": NAME}), ("GET", "open session id", {"chat": NAME})],
    "approvals/history/": [("GET", "session id", {"chat": NAME}), ("GET", "words", {"program": NAME})],
    "approvals/several/": [("POST", "approval id", {"decision": "deny", "chosen": NAME})],
    "tools/invoke": [
        (JSON, kind, {"tool": "session_status", "timeoutMs": 1, "idempotencyKey": NEW, parameter: NAME})
        for kind, parameter in (("session id", "sessionId"), ("shared key", "sessionKey"), ("own key", "sessionKey"))
    ],
    "v1/chat/completions": [(JSON, "shared key", {**CHAT, HEADERS: {header: NAME}}) for header in SESSION_HEADERS],
    "v1/responses": RESPONSES,
    "responses": RESPONSES,
    "admin/search/": [("GET", "words", {"s": NAME})],
    "admin/autocomplete/": [
        ("GET", "words", {"app_label": "sessions_app", "model_name": "run", "field_name": "session", "term": NAME})
    ],
    "admin/dashboard/live/": [("GET", "words", {"q": NAME})],
}

# URLs without a reference to a user's object: own settings and forms, static files, information about the software.
WITHOUT_OBJECT = {
    *("", "sign-in/", "confirm/", "sign-out/", "first-admin/", "first-admin/<str:token>/", "account/", "account/profile/"),
    *("account/password/", "account/tokens/", "account/browsers/sign-out-others/", "preferences/", "manifest.webmanifest"),
    *(
        "attachments/",
        "runs/",
        "stops/",
        "audit/",
        "policies/save/",
        "policies/delete/",
        "policies/history/",
        "policies/history/<int:number>/",
    ),
    *("policies/history/<int:number>/restore/", "policies/tests/", "policies/tests/new/", "policies/tests/<int:pk>/"),
    *("policies/tests/<int:pk>/delete/", "approvals/count/", "approvals/let-ask/", "approvals/grants/", "approvals/try/"),
    *("api/protocol.json", "api/openapi.json", "api/docs", "healthz", "readyz", "metrics", "v1/models", "v1/models/<path:name>"),
    *("hooks/<path:path>", "control-ui"),
    *("admin/", "admin/login/", "admin/logout/", "admin/password_change/", "admin/password_change/done/", "admin/jsi18n/"),
}
# All URLs below it are in the OpenAPI document.
REST = r"^api/(?P<path>[\s\S]+)$"
OPENAPI = "/api/openapi.json"

# Parts of REST paths and queries; a query may also be one of REFS or PLAIN.
REST_NAMES = {
    "session_id": ("session id",),
    "run": RUN,
    "approval": ("approval id",),
    "token": ("token number",),
    "sessionId": ("session id",),
}
REST_PLAIN = {"agent", "version", "tool", "Idempotency-Key", "X-CSRFToken"}


def routes() -> Iterator[str]:
    """Yield every URL pattern of the URLconf; regular expressions unchanged."""
    yield from _below(get_resolver().url_patterns, "")


def _below(patterns: list[URLPattern | URLResolver], before: str) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _below(pattern.url_patterns, before + str(pattern.pattern))
        else:
            yield before + str(pattern.pattern)


def admin_model(route: str) -> tuple[str, str] | None:
    """Return app and model of an admin page."""
    parts = route.split("/")
    is_page = parts[0] == "admin" and len(parts) > 3 and not parts[1].startswith(("r", "^", "(")) and not parts[2].startswith("<")
    return (parts[1], parts[2]) if is_page and parts[1] not in ("dashboard", "password_change") else None


def build_path(route: str, name: Any) -> str:
    """Return the URL with the ID filled in."""

    def part(found: re.Match[str]) -> str:
        return FIXED.get(found[1], str(name))

    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", part, route)


def is_listed(route: str) -> bool:
    listed = route in IN_PATH or route in IN_FORM or route in WITHOUT_OBJECT or admin_model(route) is not None
    # The admin's app lists, its page for unknown URLs, and the redirect from old webhook URLs.
    return listed or route == REST or route.startswith(("admin/^(?P<app_label>", "admin/(?P<url>", "^admin/gateway/(?P<page>"))


def isolation_cases(route: str) -> Iterator[IsolationCase]:
    """Yield GET and POST of every URL that refers to an object; admin pages refer to a row of their model."""
    table = admin_model(route)
    if table and "<" in route:
        for verb in ("GET", "POST"):
            yield IsolationCase(f"{verb} {route}", "row", "row of " + ".".join(table), {})
    elif table:
        yield IsolationCase(f"GET {route}", "q", "words", {"q": NAME})
    for part, kinds in IN_PATH.get(route, {}).items():
        for verb in ("GET", "POST"):
            for kind in kinds:
                yield IsolationCase(f"{verb} {route}", part, kind, {"decision": "deny", "reason": "no"})
    for verb, kind, sent in IN_FORM.get(route, []):
        yield IsolationCase(f"{verb} {route}", "with it", kind, sent)


def rest_isolation_cases(document: dict[str, Any]) -> Iterator[IsolationCase]:
    """Yield every operation of the OpenAPI document, once for each parameter that refers to an object."""
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            body = _example(document, operation)
            for parameter in operation.get("parameters", []):
                for kind in rest_kinds(parameter["name"]):
                    where = f"{verb.upper()} {path.lstrip('/')}"
                    query = {parameter["name"]: NAME} if parameter["in"] == "query" else {}
                    yield IsolationCase(
                        where, parameter["name"], kind, {"path": _context(path, parameter["name"]), "query": query, "body": body}
                    )


def rest_kinds(name: str) -> tuple[str, ...]:
    """Raises KeyError if the parameter is not listed."""
    if name in REST_NAMES:
        return REST_NAMES[name]
    if name in REST_PLAIN or name in PLAIN:
        return ()
    return REFS[name].kinds


def _context(path: str, named: str) -> dict[str, Any]:
    """Return values for the other parts of the path: objects of the caller or fixed examples."""
    parts = [part.strip("{}") for part in path.split("/") if part.startswith("{")]
    known: dict[str, Any] = {"agent": "main", "version": 1, "tool": "read"}
    others = {part: known.get(part) or Own(REST_NAMES[part][0]) for part in parts if part != named}
    return {**others, **({named: NAME} if named in parts else {})}


def _example(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any] | None:
    content = operation.get("requestBody", {}).get("content", {}).get(JSON)
    if content is None:
        return None
    schema = content["schema"]
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    examples = {**EXAMPLES, "scopes": ["operator.read"]}
    return {name: examples[name] for name in schema.get("required", []) if name in examples}
