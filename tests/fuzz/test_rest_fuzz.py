"""Random requests to the REST API, valid and invalid: no internal errors, and every response as documented by OpenAPI.

CLAWSITE_REST_EXAMPLES sets the number of requests per operation.
"""

import os
from datetime import timedelta
from typing import Any

import httpx
import pytest
import schemathesis
from django.test import Client
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from clawsite.api.rest.mount import load_openapi
from tests.fuzz.chance import SEED
from tests.harness.approvals import create_approval

EXAMPLES = int(os.environ.get("CLAWSITE_REST_EXAMPLES", "12"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def document() -> dict[str, Any]:
    import json

    import orjson

    return json.loads(orjson.dumps(load_openapi(), option=orjson.OPT_NON_STR_KEYS))


API = schemathesis.openapi.from_dict(document())
OPERATIONS = {f"{each.ok().method.upper()} {each.ok().path}": each.ok() for each in API.get_all_operations()}


@pytest.fixture
def world(make_user, make_session):
    """A user with all permissions, and one object of every kind that a path can refer to."""
    from clawsite.accounts.groups import scopes_of
    from clawsite.accounts.tokens import issue_token
    from sessions_app.runs.lifecycle import accept_run

    user = make_user("User", "Approver", "Operator", "Auditor")
    session = make_session(user)
    spare, secret = issue_token(user, "spare", ["operator.read"])[0], issue_token(user, "fuzz", sorted(scopes_of(user)))[1]
    run = accept_run(user=user, session=session, run_id="fuzz", prompt="hello")
    other = make_user()
    question = create_approval(other, make_session(other))
    names = {"session_id": str(session.pk), "run": run.pk, "approval": str(question.pk), "token": spare.pk}
    return secret, names | {"agent": "main", "tool": "read", "version": 1}


def test_every_operation_is_called():
    assert len(OPERATIONS) == sum(len(methods) for methods in load_openapi()["paths"].values()) >= 25


@pytest.mark.parametrize("name", OPERATIONS)
def test_requests_cause_no_bug_or_undocumented_response(name, world):
    operation, (secret, names) = OPERATIONS[name], world
    client = Client(headers={"Authorization": f"Bearer {secret}"}, raise_request_exception=False)
    any_case = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode))

    # No shrinking: a failing request is easy to read as it is, and shrinking takes minutes.
    quick = {"deadline": None, "database": None, "phases": [Phase.generate], "suppress_health_check": list(HealthCheck)}

    @seed(SEED)
    @settings(max_examples=EXAMPLES, **quick)
    @given(case=any_case, known=st.booleans())
    def ask(case: Any, known: bool) -> None:
        if known:
            case.path_parameters = {part: names[part] for part in case.path_parameters or {}}
        case.validate_response(answer_to(client, case), checks=CHECKS)

    ask()


def answer_to(client: Client, case: Any) -> httpx.Response:
    request = httpx.Request(**_sent(case))
    headers = {name: value for name, value in request.headers.items() if name not in ("content-length", "host", "authorization")}
    answer = client.generic(
        request.method,
        request.url.raw_path.decode(),
        request.read(),
        content_type=headers.pop("content-type", ""),
        headers=headers,
    )
    response = httpx.Response(answer.status_code, headers=dict(answer.items()), content=answer.content, request=request)
    response.elapsed = timedelta(0)  # httpx's own client sets it
    return response


def _sent(case: Any) -> dict[str, Any]:
    told = case.as_transport_kwargs(base_url="http://testserver")
    known = {
        name: told[name] for name in ("method", "url", "headers", "params", "json", "data", "cookies") if told.get(name) is not None
    }
    return {**known, **({"content": known.pop("data")} if isinstance(known.get("data"), bytes | str) else {})}
