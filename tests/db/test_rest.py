"""Runs, approvals, policies, agents and tokens over REST, and the OpenAPI document."""

import datetime as dt
import re

import pytest

from clawsite.accounts.groups import scopes_of
from clawsite.accounts.models import AccessToken
from clawsite.accounts.tokens import issue_token
from clawsite.api.rest.mount import load_openapi
from clawsite.infra import clock, db
from clawsite.infra.models import AuditEntry
from sessions_app.models import Event, Run
from sessions_app.runs import queue
from sessions_app.sessions import members
from tests.harness.approvals import create_approval
from tests.harness.rest_client import CSRF, RestClient, browser_client, token_client
from tools_app.models import Approval
from tools_app.policy_store import policies

READ, WRITE, APPROVALS = "operator.read", "operator.write", "operator.approvals"
GATEWAY = "test-gateway-token"


@pytest.fixture
def me(user):
    return token_client(user)


@pytest.fixture
async def run(me, user, make_session):
    """A queued run of the caller."""
    session = make_session(user)
    sent = await me.post(f"/sessions/{session.pk}/messages", {"message": "hello"}, Idempotency_Key="first")
    return Run.objects.get(pk=sent.data["id"])


# Runs


async def test_runs_are_paginated_newest_first(me, user, make_session):
    session = make_session(user)
    for number in range(3):
        await me.post(f"/sessions/{session.pk}/messages", {"message": "x"}, Idempotency_Key=f"r{number}")
    first = (await me.get("/runs?limit=2")).data
    rest = (await me.get(f"/runs?limit=2&cursor={first['next']}")).data
    assert [row["runId"] for page in (first, rest) for row in page["items"]] == ["r2", "r1", "r0"]
    assert rest["next"] is None
    assert len((await me.get(f"/runs?sessionId={session.pk}&status=unfinished")).data["items"]) == 3
    assert (await me.get("/runs?status=completed")).data["items"] == []
    assert (await me.get("/runs?status=asleep")).data["errors"][0]["field"] == "query/status"


async def test_run_returns_its_status_and_events(me, run):
    told = (await me.get(f"/runs/{run.pk}")).data
    assert (told["run"]["status"], told["run"]["prompt"], told["attempts"]) == ("accepted", "hello", 1)
    events = (await me.get(f"/runs/{run.pk}/events")).data
    assert [event["data"]["phase"] for event in events["items"]] == ["accepted"]
    assert (events["ended"], events["more"]) == (False, False)
    assert (await me.get(f"/runs/{run.pk}/events?cursor={events['next']}")).data["items"] == []


async def test_deleted_run_events_require_resync(me, run):
    await me.post(f"/runs/{run.pk}/abort")
    Event.objects.filter(run=run, seq=1).delete()
    gone = (await me.get(f"/runs/{run.pk}/events")).data
    assert (gone["resync_required"], gone["items"], gone["ended"]) == (True, [], True)
    Event.objects.filter(run=run).delete()
    assert (await me.get(f"/runs/{run.pk}/events")).data["resync_required"] is True


async def test_run_is_aborted_once(me, run):
    assert (await me.post(f"/runs/{run.pk}/abort")).data == {"id": run.pk, "runId": "first", "aborted": True}
    assert (await me.post(f"/runs/{run.pk}/abort")).data["aborted"] is False
    run.refresh_from_db()
    assert (run.status, run.reason) == ("aborted", "rpc")


async def test_abort_of_running_run_is_requested_from_worker(me, run):
    await db.write(queue.claim_runs, "hand", 1, alone=True)
    assert (await me.post(f"/runs/{run.pk}/abort")).data["aborted"] is True
    run.refresh_from_db()
    assert (run.status, run.abort_reason) == ("running", "rpc")


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("GET", "/events"), ("POST", "/abort")])
async def test_run_of_another_user_is_not_found(run, make_user, method, path):
    stranger = token_client(make_user())
    assert (await stranger.ask(method, f"/runs/{run.pk}{path}")).status_code == 404
    assert (await stranger.ask(method, f"/runs/{run.run_id}{path}")).status_code == 404
    assert (await stranger.ask(method, f"/runs/{2**52}{path}")).status_code == 404
    assert (await stranger.get("/runs")).data["items"] == []
    assert (await stranger.get(f"/runs?sessionId={run.session_id}")).status_code == 404
    run.refresh_from_db()
    assert run.status == "accepted"


async def test_operator_sees_run_without_prompt(run, make_user):
    told = (await token_client(make_user("Operator")).get(f"/runs/{run.pk}")).data
    assert (told["run"]["words"], told["run"]["prompt"]) == (False, "")


@pytest.mark.parametrize("name", ["0", "-1", "x", str(2**63), "9" * 200, "1.5", "٣", "%ED%A0%80"])
async def test_unknown_run_is_not_found(me, run, name):
    assert (await me.get(f"/runs/{name}")).status_code == 404
    assert (await me.get(f"/runs/{'x' * 201}")).status_code == 400


async def test_run_is_found_by_its_key(me, run):
    assert (await me.get("/runs/first")).data["run"]["id"] == run.pk
    assert (await me.get("/runs/first/events")).data == (await me.get(f"/runs/{run.pk}/events")).data
    assert (await me.post("/runs/first/abort")).data == {"id": run.pk, "runId": "first", "aborted": True}


async def test_own_run_is_preferred_for_shared_key(me, run, make_user, make_session):
    other = make_user()
    theirs = make_session(other)
    await token_client(other).post(f"/sessions/{theirs.pk}/messages", {"message": "theirs"}, Idempotency_Key="first")
    await db.write(members.share, other, theirs, run.owner.username, "writer")
    assert (await me.get("/runs/first")).data["run"]["prompt"] == "hello"
    await db.write(members.share, run.owner, run.session, other.username, "writer")
    assert (await token_client(other).get("/runs/first")).data["run"]["prompt"] == "theirs"


async def test_numeric_run_name_is_treated_as_id(me, run, make_session):
    session = make_session(run.owner)
    await me.post(f"/sessions/{session.pk}/messages", {"message": "another"}, Idempotency_Key=str(run.pk))
    assert (await me.get(f"/runs/{run.pk}")).data["run"]["prompt"] == "hello"


async def test_abort_requires_write_scope(user, run):
    answer = await token_client(user, READ).post(f"/runs/{run.pk}/abort")
    assert (answer.status_code, answer.data["details"]["scope"]) == (403, WRITE)


# Approvals


@pytest.fixture
def question(user, make_session):
    return create_approval(user, make_session(user))


async def test_owner_sees_approval_request_and_approver_decides(me, make_user, question):
    mine = (await me.get("/approvals")).data["items"]
    assert [row["id"] for row in mine] == [str(question.pk)]
    approver = make_user("Approver", name="ada")
    theirs = token_client(approver)
    seen = (await theirs.get(f"/approvals/{question.pk}")).data
    answer = {"decision": "deny", "reason": "not today", "planHash": seen["planHash"]}
    assert (await me.post(f"/approvals/{question.pk}/decision", answer)).status_code == 403
    told = await theirs.post(f"/approvals/{question.pk}/decision", answer)
    assert (told.status_code, told.data["status"], told.data["resolvedBy"]) == (200, "denied", "ada")
    assert (await theirs.post(f"/approvals/{question.pk}/decision", answer)).status_code == 200
    late = await token_client(make_user("Approver")).post(f"/approvals/{question.pk}/decision", {"decision": "allow-once"})
    assert (late.status_code, late.data["code"], late.data["details"]["decidedBy"]) == (409, "CONFLICT", "ada")
    assert (await me.get("/approvals")).data["items"] == []
    assert [row["id"] for row in (await me.get("/approvals?status=denied")).data["items"]] == [str(question.pk)]


async def test_approval_requests_are_paginated_oldest_first(me, user, make_session):
    made = [str(create_approval(user, make_session(user)).pk) for _ in range(3)]
    first = (await me.get("/approvals?limit=2")).data
    rest = (await me.get(f"/approvals?limit=2&cursor={first['next']}")).data
    assert [row["id"] for page in (first, rest) for row in page["items"]] == made
    assert rest["next"] is None


async def test_approval_request_of_another_user_is_not_found(make_user, question):
    stranger = token_client(make_user())
    assert (await stranger.get("/approvals?status=all")).data["items"] == []
    assert (await stranger.get(f"/approvals/{question.pk}")).status_code == 404
    assert (await stranger.get("/approvals/no-uuid")).status_code == 400


async def test_decision_with_cookie_requires_csrf_token(make_user, question):
    browser = browser_client(make_user("Approver"))
    answer = {"decision": "deny"}
    assert (await browser.post(f"/approvals/{question.pk}/decision", answer)).status_code == 403
    assert Approval.objects.get().status == "pending"
    assert (await browser.post(f"/approvals/{question.pk}/decision", answer, X_CSRFToken=CSRF)).status_code == 200


@pytest.mark.parametrize(
    "body", [{}, {"decision": "perhaps"}, {"decision": "deny", "reason": "x" * 10_000}, {"decision": "deny", "by": 1}]
)
async def test_invalid_decision_body_is_rejected(make_user, question, body):
    answer = await token_client(make_user("Approver")).post(f"/approvals/{question.pk}/decision", body)
    assert (answer.status_code, bool(answer.data["errors"])) == (400, True)
    assert Approval.objects.get().status == "pending"


async def test_gateway_token_cannot_approve(question):
    answer = await RestClient(GATEWAY).post(f"/approvals/{question.pk}/decision", {"decision": "allow-once"})
    assert (answer.status_code, answer.data["details"]["scope"]) == (403, APPROVALS)


# Policies


async def test_operators_and_auditors_can_read_policy_versions(make_user, fresh_policy):
    policies.save_policy(scope="agent", subject="helper", profile="minimal", also_allow=["read"])
    for group in ("Operator", "Auditor"):
        rest = token_client(make_user(group))
        now = (await rest.get("/policies")).data
        assert now["version"] == 2
        assert [row["alsoAllow"] for row in now["rows"] if row["subject"] == "helper"] == [["read"]]
        first = (await rest.get("/policies/versions?limit=1")).data
        second = (await rest.get(f"/policies/versions?limit=1&cursor={first['next']}")).data
        assert [page["items"][0]["version"] for page in (first, second)] == [2, 1]
        assert second["next"] is None
        assert all(row["subject"] != "helper" for row in (await rest.get("/policies/versions/1")).data["rows"])
        assert (await rest.get("/policies/versions/99")).status_code == 404


@pytest.mark.parametrize("path", ["/policies", "/policies/versions", "/policies/versions/1"])
async def test_reading_policy_without_permission_is_forbidden(me, path):
    answer = await me.get(path)
    assert (answer.status_code, answer.data["code"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_policy_cannot_be_changed_through_api(make_user, method):
    rest = token_client(make_user("Operator"))
    for path in ("/policies", "/policies/versions", "/policies/versions/1"):
        assert (await rest.ask(method, path, {})).status_code == 405


# Agents


async def test_agents_can_be_listed_and_retrieved(me):
    from agents.models import Agent

    Agent.objects.create(slug="helper", name="Helper")
    Agent.objects.create(slug="off", name="Off", enabled=False)
    first = (await me.get("/agents?limit=1")).data
    second = (await me.get(f"/agents?limit=1&cursor={first['next']}")).data
    assert [page["items"][0]["id"] for page in (first, second)] == ["main", "helper"]
    assert (first["items"][0]["default"], second["next"]) == (True, None)
    assert (await me.get("/agents/helper")).data["name"] == "Helper"
    for missing in ("off", "nobody", "%00"):
        assert (await me.get(f"/agents/{missing}")).status_code == 404


# Tokens


async def test_token_can_be_created_used_and_revoked(me, user):
    made = await me.post("/tokens", {"name": "robot", "scopes": [READ]})
    assert made.status_code == 201
    robot = RestClient(made.data["secret"])
    assert (await robot.get("/sessions")).status_code == 200
    assert (await robot.post("/sessions", {})).status_code == 403
    listed = (await me.get("/tokens")).data["items"]
    assert [row["name"] for row in listed] == ["robot", "test"]
    assert "secret" not in listed[0]
    assert (await me.delete(f"/tokens/{made.data['id']}")).status_code == 204
    assert (await robot.get("/sessions")).status_code == 401
    acts = AuditEntry.objects.filter(action__in=["token.made", "token.revoked"], subject_id=str(made.data["id"]))
    assert {entry.actor_name for entry in acts} == {user.username}
    assert acts.count() == 2


async def test_token_cannot_create_token_with_more_rights(make_user):
    user = make_user("User", "Approver")
    token, secret = issue_token(user, "small", [READ, WRITE], clock.now() + dt.timedelta(days=1))
    made = (
        await RestClient(secret).post(
            "/tokens", {"name": "big", "scopes": [READ, WRITE, APPROVALS], "expiresAt": 4_102_444_800_000}
        )
    ).data
    assert made["scopes"] == [READ, WRITE]
    assert made["expiresAt"] <= clock.to_ms(token.expires_at)
    assert APPROVALS in scopes_of(user)
    assert (
        await RestClient(issue_token(user, "eyes", [READ])[1]).post("/tokens", {"name": "x", "scopes": [READ]})
    ).status_code == 403


async def test_gateway_token_cannot_create_or_revoke_tokens(me):
    gateway = RestClient(GATEWAY)
    assert (await gateway.post("/tokens", {"name": "x", "scopes": [READ]})).status_code == 403
    assert (await gateway.delete("/tokens/1")).status_code == 403


async def test_token_of_another_user_is_not_found(me, make_user):
    theirs = issue_token(make_user(), "theirs", [READ])[0]
    assert (await me.delete(f"/tokens/{theirs.pk}")).status_code == 404
    assert AccessToken.objects.get(pk=theirs.pk).revoked_at is None
    assert theirs.name not in [row["name"] for row in (await me.get("/tokens")).data["items"]]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "", "scopes": [READ]},
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["root"]},
        {"name": "x", "scopes": [READ], "expiresAt": 1},
    ],
)
async def test_invalid_token_body_is_rejected(me, body):
    before = AccessToken.objects.count()
    assert (await me.post("/tokens", body)).status_code == 400
    assert AccessToken.objects.count() == before


async def test_token_creation_with_cookie_requires_csrf_token(user):
    browser = browser_client(user)
    body = {"name": "robot", "scopes": [READ]}
    assert (await browser.post("/tokens", body)).status_code == 403
    assert (await browser.post("/tokens", body, X_CSRFToken=CSRF)).status_code == 201


# All operations

BODIES = {"changeSession": {"label": "mine"}, "sendMessage": {"message": "hello"}, "decideApproval": {"decision": "deny"}}
OF_EVERYBODY = {"agent", "tool", "version"}  # IDs of objects that don't exist


async def test_no_operation_exposes_other_users_objects(make_user, make_session):
    """Covers every operation: a new one is tried too, or the test names the body it needs."""
    owner = make_user()
    session = make_session(owner)
    question = create_approval(owner, session)
    names = {"session_id": session.pk, "run": question.run_id, "approval": question.pk}
    names |= {"token": issue_token(owner, "theirs", [READ])[0].pk}
    stranger, tried = token_client(make_user("User", "Operator")), 0
    for path, methods in load_openapi()["paths"].items():
        parts = set(re.findall(r"{(\w+)}", path))
        if not parts or parts <= OF_EVERYBODY:
            continue
        address = path.removeprefix("/api").format(**names, agent="main", tool="read", version=1)
        for method, operation in methods.items():
            body = BODIES[operation["operationId"]] if "requestBody" in operation else None
            answer = await stranger.ask(method.upper(), address, body)
            lacks_scope = answer.status_code == 403 and "scope" in answer.data.get("details", {})
            seen_by_office = operation["operationId"] in ("getRun", "listRunEvents")  # an operator's view, without user content
            if seen_by_office:
                assert "the secret prompt" not in answer.content.decode()
            else:
                assert lacks_scope or answer.status_code == 404, (method, address, answer.data)
            tried += 1
    assert tried >= 14
    session.refresh_from_db()
    assert (session.label, session.deleted_at) == ("", None)
    assert Approval.objects.get().status == "pending"


# OpenAPI document


async def test_openapi_document_is_public_and_lists_scopes_and_errors(database):
    answer = await RestClient().get("/openapi.json")
    assert answer.status_code == 200
    paths = answer.data["paths"]
    assert paths["/api/approvals/{approval}/decision"]["post"]["x-scope"] == APPROVALS
    for methods in paths.values():
        for operation in methods.values():
            assert "application/problem+json" in operation["responses"]["default"]["content"]
            assert operation["security"] == [{"token": []}, {"cookie": []}]
            assert operation["description"]
    names = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(names) == len(set(names))
