"""Sessions over REST: created, listed, changed, deleted and sent messages, by their owner only."""

import pytest

from agents.models import Agent
from sessions_app.keys import OPENAI_CHANNEL
from sessions_app.models import Event, Run, Session
from sessions_app.sessions import members
from sessions_app.sessions.service import create_session
from tests.harness.rest_client import CSRF, RestClient, browser_client, token_client

pytestmark = pytest.mark.dialect

READ, WRITE = "operator.read", "operator.write"


@pytest.fixture
def me(user):
    return token_client(user)


async def test_session_can_be_created_read_updated_and_deleted(me, user):
    made = await me.post("/sessions", {"label": "plans", "agentId": "main"})
    assert made.status_code == 201, made.data
    assert (made.data["label"], made.data["agentId"], made.data["unread"]) == ("plans", "main", False)
    path = f"/sessions/{made.data['id']}"
    assert (await me.get(path)).data["key"] == made.data["key"]
    changed = await me.patch(path, {"label": None, "thinkingLevel": "high", "pinned": True})
    assert (changed.status_code, changed.data["label"], changed.data["thinkingLevel"]) == (200, None, "high")
    assert changed.data["pinned"] is True
    assert (await me.delete(path)).status_code == 204
    assert (await me.get(path)).status_code == 404
    assert Session.objects.get(pk=made.data["id"]).deleted_at is not None


async def test_repeated_key_returns_same_session(me):
    first = await me.post("/sessions", {"key": "agent:main:plans"})
    again = await me.post("/sessions", {"key": "agent:main:plans"})
    assert first.data["id"] == again.data["id"]
    assert (first.status_code, again.status_code) == (201, 200)


async def test_repeated_idempotency_key_returns_same_session(me, user):
    asked = {"idempotencyKey": "once", "label": "plans"}
    first, again = await me.post("/sessions", asked), await me.post("/sessions", asked)
    assert (first.status_code, again.status_code, again.data) == (201, 200, first.data)
    other = await me.post("/sessions", {**asked, "label": "bills"})
    assert (other.status_code, other.data["detail"]) == (
        409,
        "This idempotencyKey was used for a different request. Use a new one.",
    )
    assert Session.objects.filter(owner=user).count() == 1


async def test_idempotency_key_reused_for_another_agent_conflicts(me, user):
    Agent.objects.create(slug="other", name="Other")
    assert (await me.post("/sessions", {"idempotencyKey": "once"})).status_code == 201
    assert (await me.post("/sessions", {"idempotencyKey": "once", "agentId": "other"})).status_code == 409
    assert Session.objects.filter(owner=user).count() == 1


async def test_session_pages_have_no_gaps_or_duplicates(me, user, make_session):
    ids = {str(make_session(user).pk) for _ in range(5)}
    seen, cursor = [], ""
    while cursor is not None:
        page = (await me.get(f"/sessions?limit=2&cursor={cursor}")).data
        assert len(page["items"]) <= 2
        seen += [row["id"] for row in page["items"]]
        cursor = page["next"]
    assert (len(seen), set(seen)) == (5, ids)
    times = [row["updatedAt"] for row in (await me.get("/sessions")).data["items"]]
    assert times == sorted(times, reverse=True)


async def test_stateless_session_is_unlisted_but_found_by_id(me, user):
    made = create_session(user, key=f"agent:main:{OPENAI_CHANNEL}:one", channel=OPENAI_CHANNEL)
    assert (await me.get("/sessions")).data["items"] == []
    assert (await me.get(f"/sessions/{made.pk}")).data["key"] == made.key


async def test_session_list_filters_by_agent_and_label(me):
    await me.post("/sessions", {"label": "plans"})
    await me.post("/sessions", {"label": "bills"})
    assert [row["label"] for row in (await me.get("/sessions?label=bills")).data["items"]] == ["bills"]
    assert (await me.get("/sessions?agentId=nobody")).data == {"items": [], "next": None}


@pytest.mark.parametrize("cursor", ["x", "bm8", "WzFd", "WyIyMDI2LTAxLTAxIiwieCJd", "W10"])
async def test_invalid_cursor_is_rejected(me, cursor):
    answer = await me.get(f"/sessions?cursor={cursor}")
    assert (answer.status_code, answer.data["code"]) == (400, "INVALID_REQUEST")
    assert "cursor" in answer.data["detail"]


@pytest.mark.parametrize(
    ("path", "field"),
    [("/sessions?limit=0", "query/limit"), ("/sessions?limit=many", "query/limit"), ("/sessions?limit=201", "query/limit")],
)
async def test_invalid_query_parameter_is_named(me, path, field):
    answer = await me.get(path)
    assert answer.status_code == 400
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert [fault["field"] for fault in answer.data["errors"]] == ["query/limit"]
    assert {"type", "title", "status", "detail", "code"} <= answer.data.keys()


async def test_invalid_body_is_reported_per_field(me):
    answer = await me.post("/sessions", {"label": 1, "colour": "red"})
    assert answer.status_code == 400
    assert {fault["field"] for fault in answer.data["errors"]} == {"body/label", "body/colour"}
    assert (await me.ask("POST", "/sessions", raw=b"{")).data["detail"] == "the body is not valid JSON"
    assert (await me.ask("POST", "/sessions", raw=b"[]")).status_code == 400
    assert (await me.post("/sessions", {"agentId": "nobody"})).status_code == 404


OF_A_SESSION = [
    ("GET", "", None),
    ("PATCH", "", {"label": "mine"}),
    ("DELETE", "", None),
    ("GET", "/messages", None),
    ("POST", "/messages", {"message": "hello"}),
    ("GET", "/events", None),
    ("GET", "/tools", None),
    ("GET", "/tools/read", None),
]


@pytest.mark.parametrize(("method", "path", "body"), OF_A_SESSION)
async def test_session_of_another_user_is_not_found(me, make_user, make_session, method, path, body):
    theirs = make_session(make_user())
    for name in (theirs.pk, theirs.generation_id, "no-id"):
        answer = await me.ask(method, f"/sessions/{name}{path}", body)
        assert (answer.status_code, answer.data["code"]) == (404, "NOT_FOUND")
    theirs.refresh_from_db()
    assert theirs.deleted_at is None
    assert not Run.objects.exists()


@pytest.mark.parametrize(("method", "path", "body"), [case for case in OF_A_SESSION if case[0] != "GET"])
async def test_session_changes_require_write_scope(user, make_session, method, path, body):
    answer = await token_client(user, READ).ask(method, f"/sessions/{make_session(user).pk}{path}", body)
    assert (answer.status_code, answer.data["details"]) == (403, {"scope": WRITE})


async def test_viewer_can_read_but_not_delete_session(user, make_user, make_session):
    guest, session = make_user(), make_session(user)
    members.share(user, session, guest.username, "viewer")
    theirs = token_client(guest)
    assert (await theirs.get(f"/sessions/{session.pk}")).status_code == 200
    assert (await theirs.delete(f"/sessions/{session.pk}")).status_code == 403
    assert (await theirs.post(f"/sessions/{session.pk}/messages", {"message": "hello"})).status_code == 403


async def test_request_without_valid_credential_is_unauthorized(user, make_session):
    for rest in (RestClient(), RestClient("claw_nothing_at_all"), RestClient("")):
        answer = await rest.get("/sessions")
        assert (answer.status_code, answer.data["code"]) == (401, "UNAUTHORIZED")
        assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_cookie_changes_require_csrf_token(user):
    browser = browser_client(user)
    assert (await browser.get("/sessions")).status_code == 200
    answer = await browser.post("/sessions", {})
    assert (answer.status_code, answer.data["code"]) == (403, "FORBIDDEN")
    assert "X-CSRFToken" in answer.data["detail"]
    assert (await browser.post("/sessions", {}, X_CSRFToken="b" * 32)).status_code == 403
    assert not Session.objects.exists()
    assert (await browser.post("/sessions", {}, X_CSRFToken=CSRF)).status_code == 201


async def test_repeated_message_starts_one_run(me, user, make_session):
    path = f"/sessions/{make_session(user).pk}/messages"
    first = await me.post(path, {"message": "hello"}, Idempotency_Key="k-1")
    again = await me.post(path, {"message": "hello"}, Idempotency_Key="k-1")
    other = await me.post(path, {"message": "something else"}, Idempotency_Key="k-1")
    assert (first.status_code, first.data["created"], first.data["runId"]) == (202, True, "k-1")
    assert (again.status_code, again.data["created"], again.data["id"]) == (200, False, first.data["id"])
    assert (other.status_code, other.data["code"]) == (409, "CONFLICT")
    assert Run.objects.count() == 1
    assert (await me.post(path, {"message": "hello"})).data["runId"].startswith("rest-")


async def test_run_keeps_traceparent_of_its_request(me, user, make_session):
    path = f"/sessions/{make_session(user).pk}/messages"
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    sent = await me.post(path, {"message": "hello"}, Idempotency_Key="k-1", traceparent=trace)
    assert (await me.get(f"/runs/{sent.data['id']}")).data["run"]["traceparent"] == trace
    again = await me.post(path, {"message": "hello"}, Idempotency_Key="k-1", traceparent=trace.replace("4bf9", "4bfa"))
    assert (again.status_code, again.data["id"]) == (200, sent.data["id"])
    other = await me.post(path, {"message": "hello"}, traceparent="nonsense")
    assert (await me.get(f"/runs/{other.data['id']}")).data["run"]["traceparent"] is None


@pytest.mark.parametrize(
    "body", [{"message": ""}, {"message": "/stop"}, {"message": "/status"}, {}, {"message": "x", "attachments": [{}]}]
)
async def test_invalid_message_starts_no_run(me, user, make_session, body):
    answer = await me.post(f"/sessions/{make_session(user).pk}/messages", body)
    assert (answer.status_code, answer.data["code"]) == (400, "INVALID_REQUEST")
    assert not Run.objects.exists()


async def test_messages_are_paginated_backwards(me, user, make_session):
    from sessions_app.sessions.service import inject_message

    session = make_session(user)
    for number in range(5):
        inject_message(user, session, f"word {number}")
    path = f"/sessions/{session.pk}/messages?limit=2"
    newest = (await me.get(path)).data
    assert [message["content"][0]["text"] for message in newest["items"]] == ["word 3", "word 4"]
    older = (await me.get(f"{path}&cursor={newest['next']}")).data
    oldest = (await me.get(f"{path}&cursor={older['next']}")).data
    assert [message["content"][0]["text"] for page in (oldest, older) for message in page["items"]] == [
        "word 0",
        "word 1",
        "word 2",
    ]
    assert (oldest["next"], newest["queued"], newest["activeRun"]) == (None, [], None)


async def test_events_continue_from_cursor_of_messages(me, user, make_session):
    session = make_session(user)
    path = f"/sessions/{session.pk}"
    await me.post(f"{path}/messages", {"message": "one"}, Idempotency_Key="one")
    place = (await me.get(f"{path}/messages")).data["eventCursor"]
    await me.post(f"{path}/messages", {"message": "two"}, Idempotency_Key="two")
    all_of_them = (await me.get(f"{path}/events")).data
    assert [frame["payload"]["runId"] for frame in all_of_them["items"]] == ["one", "two"]
    news = (await me.get(f"{path}/events?cursor={place}")).data
    assert [frame["payload"]["runId"] for frame in news["items"]] == ["two"]
    one = (await me.get(f"{path}/events?limit=1")).data
    assert one["more"] is True
    assert (await me.get(f"{path}/events?cursor={one['next']}")).data["items"] == news["items"]
    assert (await me.get(f"{path}/events?cursor={news['next']}")).data["items"] == []


async def test_cursor_before_deleted_events_requires_resync(me, user, make_session):
    session = make_session(user)
    path = f"/sessions/{session.pk}"
    for key in ("one", "two", "three"):
        await me.post(f"{path}/messages", {"message": key}, Idempotency_Key=key)
    start = (await me.get(f"{path}/events?limit=1")).data["next"]
    Event.objects.filter(session=session, cursor__lte=2).delete()
    gone = (await me.get(f"{path}/events?cursor={start}")).data
    assert (gone["resync_required"], gone["items"], gone["next"]) == (True, [], None)
    assert "no longer stored" in gone["reason"]


async def test_session_tools_are_listed_and_explained(me, user, make_session):
    path = f"/sessions/{make_session(user, 'agent:main:main').pk}/tools"
    seen = (await me.get(path)).data
    offered = {tool["id"] for group in seen["groups"] for tool in group["tools"]}
    assert "read" in offered
    why = (await me.get(f"{path}/read")).data
    assert (why["offered"], why["policyVersion"]) == (True, seen["policyVersion"])
    assert {"layer", "effect", "rule"} <= why["steps"][0].keys()
    assert (await me.get(f"{path}/teleport")).status_code == 404


async def test_unknown_path_and_wrong_method_return_problem_json(me):
    for answer, status in ((await me.get("/nothing"), 404), (await me.ask("PUT", "/sessions", {}), 405)):
        assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")
    assert "GET" in answer.headers["Allow"]


async def test_internal_error_returns_reference_without_details(me, monkeypatch, caplog):
    def broken(*_args, **_kwargs):
        raise RuntimeError("the secret words")

    monkeypatch.setattr("sessions_app.sessions.selectors.build_session_rows", broken)
    answer = await me.get("/sessions")
    assert (answer.status_code, answer.data["code"]) == (500, "UNAVAILABLE")
    assert "reference" in answer.data["detail"]
    assert "secret words" not in answer.content.decode()
    assert "the secret words" in caplog.text
