"""Which part of which address, query or form names what kind of thing. Read by test_isolation_http.py.

The addresses come from the URLconf and, below /api/, from the OpenAPI document. One that stands in neither table fails the test.
Pages of the admin are not listed: their addresses say of which table the row is.
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

# Address -> part of it -> kinds of things it names.
IN_ADDRESS: dict[str, dict[str, tuple[str, ...]]] = {
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

# What the other parts of these addresses are.
FIXED = {"content_type_id": "1", "which": "always"}

# Programs name sessions in headers too. A key of one's own, and `user`, are looked at in test_isolation_http.py: what they name is
# made where it is not there, and the answer comes when a worker has made it, and none is here.
HEADERS = "headers"
CHAT: dict[str, Any] = {"model": "clawsite", "messages": [{"role": "user", "content": "hi"}]}
INPUT: dict[str, Any] = {"model": "clawsite", "input": "hi"}
RESPONSES: list[tuple[str, str, dict[str, Any]]] = [
    *((JSON, kind, {**INPUT, "previous_response_id": NAME}) for kind in ("run id", "open run id")),
    *((JSON, "shared key", {**INPUT, HEADERS: {header: NAME}}) for header in SESSION_HEADERS),
]

# Address -> what is asked or sent with it. NAME stands for the thing.
WITH: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
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

# They name nothing of a single person's: own settings, forms of one's own, files of the installation, what the software is.
OF_NOBODY = {
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
# Everything below it is in the OpenAPI document.
REST = r"^api/(?P<path>[\s\S]+)$"
OPENAPI = "/api/openapi.json"

# Parts of REST addresses and queries; a query may also be one of NAMES or PLAIN.
REST_NAMES = {
    "session_id": ("session id",),
    "run": RUN,
    "approval": ("approval id",),
    "token": ("token number",),
    "sessionId": ("session id",),
}
REST_PLAIN = {"agent", "version", "tool", "Idempotency-Key", "X-CSRFToken"}


def routes() -> Iterator[str]:
    """Every address of the URLconf; those with groups of a regular expression as they are written."""
    yield from _below(get_resolver().url_patterns, "")


def _below(patterns: list[URLPattern | URLResolver], before: str) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _below(pattern.url_patterns, before + str(pattern.pattern))
        else:
            yield before + str(pattern.pattern)


def table_of(route: str) -> tuple[str, str] | None:
    """The app and the model of a page of the admin."""
    parts = route.split("/")
    is_page = parts[0] == "admin" and len(parts) > 3 and not parts[1].startswith(("r", "^", "(")) and not parts[2].startswith("<")
    return (parts[1], parts[2]) if is_page and parts[1] not in ("dashboard", "password_change") else None


def path_to(route: str, name: Any) -> str:
    """The address with the name in it."""

    def part(found: re.Match[str]) -> str:
        return FIXED.get(found[1], str(name))

    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", part, route)


def is_listed(route: str) -> bool:
    listed = route in IN_ADDRESS or route in WITH or route in OF_NOBODY or table_of(route) is not None
    # The admin's lists of one app, and its page for what it does not know.
    return listed or route == REST or route.startswith(("admin/^(?P<app_label>", "admin/(?P<url>"))


def cells(route: str) -> Iterator[IsolationCase]:
    """GET and POST of every address that names something; a page of the admin names a row of its table."""
    table = table_of(route)
    if table and "<" in route:
        for verb in ("GET", "POST"):
            yield IsolationCase(f"{verb} {route}", "row", "row of " + ".".join(table), {})
    elif table:
        yield IsolationCase(f"GET {route}", "q", "words", {"q": NAME})
    for part, kinds in IN_ADDRESS.get(route, {}).items():
        for verb in ("GET", "POST"):
            for kind in kinds:
                yield IsolationCase(f"{verb} {route}", part, kind, {"decision": "deny", "reason": "no"})
    for verb, kind, sent in WITH.get(route, []):
        yield IsolationCase(f"{verb} {route}", "with it", kind, sent)


def rest_cells(document: dict[str, Any]) -> Iterator[IsolationCase]:
    """Every operation of the OpenAPI document, once for each part of it that names something."""
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            body = _example(document, operation)
            for parameter in operation.get("parameters", []):
                for kind in rest_kinds(parameter["name"]):
                    where = f"{verb.upper()} {path.lstrip('/')}"
                    asked = {parameter["name"]: NAME} if parameter["in"] == "query" else {}
                    yield IsolationCase(
                        where, parameter["name"], kind, {"path": _context(path, parameter["name"]), "query": asked, "body": body}
                    )


def rest_kinds(name: str) -> tuple[str, ...]:
    """KeyError: nobody has said what it names."""
    if name in REST_NAMES:
        return REST_NAMES[name]
    if name in REST_PLAIN or name in PLAIN:
        return ()
    return REFS[name].kinds


def _context(path: str, named: str) -> dict[str, Any]:
    """What the other parts of the path are filled with: things of the caller's own, or the first that comes to mind."""
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
