"""Direct tool calls over HTTP and the socket: the same authorization, records and denials as for the model's calls."""

import asyncio

import httpx
import pytest
from django.test import Client as Browser

from agents.models import Agent
from clawsite.accounts.models import FailedSignIns
from clawsite.accounts.sign_in import throttle
from sessions_app.models import Run, ToolCall
from tests.harness.users import PASSWORD
from tools_app.policy_store import policies


@pytest.fixture
def call(live, make_user):
    """Invoke over HTTP as a new user, or as `user`."""
    user = make_user()

    async def invoke(body, *, user=user, token=None, **headers):
        token = live.api_token(user) if token is None else token
        headers = {"Authorization": f"Bearer {token}", **headers} if token else headers
        async with httpx.AsyncClient(base_url=live.url, headers=headers, timeout=30) as client:
            return await client.post("/tools/invoke", json=body)

    invoke.user = user
    return invoke


async def test_tool_call_over_http_is_recorded_in_the_session(call):
    made = await call({"tool": "write", "args": {"path": "note.txt", "content": "hello"}, "sessionKey": "main"})
    assert (made.status_code, made.json()["ok"]) == (200, True)
    answer = (await call({"name": "read", "args": {"path": "note.txt"}})).json()
    assert answer["result"]["content"] == [{"type": "text", "text": "hello"}]
    row = ToolCall.objects.get(run__run_id=answer["runId"])
    assert (row.name, row.status, row.arguments) == ("read", "finished", {"path": "note.txt"})
    assert len(row.verdict["trace"]["read"]) == 10
    assert (row.run.status, row.run.reason, row.run.model) == ("completed", "invoked", "")


async def test_same_idempotency_key_runs_the_call_once(call):
    body = {"tool": "write", "args": {"path": "once.txt", "content": "x"}, "idempotencyKey": "only-once"}
    first, again = await call(body), await call(body)
    assert first.json() == again.json()
    assert "created" in first.json()["result"]["content"][0]["text"]
    other = await call({**body, "args": {"path": "twice.txt", "content": "x"}})
    assert (other.status_code, other.json()["error"]["type"]) == (409, "conflict")


async def test_denied_call_names_its_layer(call):
    answer = await call({"tool": "read", "args": {"path": "x"}, "agentId": "demo"})
    assert answer.status_code == 403
    error = answer.json()["error"]
    assert (error["type"], error["layer"]) == ("tool_not_allowed", "profile")
    assert "profile" in error["message"]
    assert ToolCall.objects.get(run__run_id=answer.json()["runId"]).status == "refused"


@pytest.mark.parametrize("sent", ["", "{", "[1,", '{"tool": "read", "args": {"n": 1e999}}x', "\ufeff{}"])
async def test_non_json_body_is_rejected(call, live, sent):
    headers = {"Authorization": f"Bearer {live.api_token(call.user)}"}
    async with httpx.AsyncClient(base_url=live.url, headers=headers) as client:
        answer = await client.post("/tools/invoke", content=sent.encode())
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request")


@pytest.mark.parametrize("args", [{"n": 2**70}, {"path": "a\0b"}, {"deep": [[[[[[{}]]]]]]}])
async def test_unusual_arguments_return_an_error_message(call, args):
    answer = await call({"tool": "read", "args": args})
    assert (answer.status_code, answer.json()["error"]["type"]) == (
        400,
        "invalid_arguments" if "path" not in args else "tool_error",
    )


async def test_form_post_with_cookie_is_rejected(call, live, settings):
    browser = Browser()
    assert browser.login(username=call.user.username, password=PASSWORD)
    signed_in = browser.cookies[settings.SESSION_COOKIE_NAME].value
    cookies = f"{settings.SESSION_COOKIE_NAME}={signed_in}; {settings.CSRF_COOKIE_NAME}={'a' * 32}"
    async with httpx.AsyncClient(base_url=live.url, headers={"Cookie": cookies}) as client:
        answer = await client.post("/tools/invoke", files={"file": b"x"}, data={"csrfmiddlewaretoken": "a" * 32})
        assert answer.status_code == 403  # the form is not read: the token is only accepted in the header
        answer = await client.post("/tools/invoke", files={"file": b"x"}, headers={"X-CSRFToken": "a" * 32})
        assert answer.status_code == 400


@pytest.mark.parametrize("name", ["fs.read", "Read", "read file"])
async def test_invalid_tool_name_is_never_stored(call, name):
    answer = await call({"tool": name})
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found")
    assert not ToolCall.objects.filter(session__owner=call.user).exists()


async def test_unknown_tool_is_not_found(call):
    answer = await call({"tool": "teleport"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "tool_not_allowed")


async def test_unavailable_tool_reports_its_missing_requirement(call, live):
    policies.save_policy(scope="agent", subject="main", profile="coding", also_allow=["web_search"])
    try:
        answer = await call({"tool": "web_search", "args": {"query": "x"}})
        async with live.client(call.user) as client:
            seen = await client.request("tools.effective", {})
    finally:
        policies.save_policy(scope="agent", subject="main", profile="coding")
    reason = "no search engine is configured: set CLAWSITE_SEARXNG_URL or BRAVE_API_KEY"
    assert seen["notOffered"] == [{"id": "web_search", "reason": reason, "code": "tool.no_search_engine"}]
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "tool_not_allowed")
    assert f"unavailable in this run: {reason}" in answer.json()["error"]["message"]


async def test_direct_call_needs_no_model_key(call):
    Agent.objects.get_or_create(slug="keyless", defaults={"name": "Keyless", "model": "anthropic/claude-opus-5"})
    answer = await call({"tool": "session_status", "agentId": "keyless"})
    assert answer.status_code == 200, answer.text
    assert "anthropic/claude-opus-5" in answer.json()["result"]["content"][0]["text"]


async def test_token_guessing_is_rate_limited_with_retry_time(call):
    for _ in range(9):
        throttle.record_failure("127.0.0.1")
    try:
        answer = await call({"tool": "session_status"})
    finally:
        FailedSignIns.objects.all().delete()
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["Retry-After"]) <= 16


async def test_invalid_arguments_and_failures_return_error_messages(call):
    wrong = (await call({"tool": "read", "args": {"file": 1}})).json()["error"]
    assert wrong["type"] == "invalid_arguments"
    assert "`path`" in wrong["message"]
    missing = await call({"tool": "read", "args": {"path": "nothing-here"}})
    assert (missing.status_code, missing.json()["error"]["type"]) == (400, "tool_error")
    assert "does not exist" in missing.json()["error"]["message"]


@pytest.mark.parametrize("body", [[], {}, {"tool": ""}, {"tool": "read", "args": []}, {"tool": "read", "colour": "red"}])
async def test_invalid_body_is_rejected_with_an_error(call, body):
    answer = await call(body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request")


async def test_dry_run_is_rejected(call):
    before = ToolCall.objects.count()
    assert (await call({"tool": "session_status", "dryRun": False})).status_code == 200
    rehearsed = await call({"tool": "session_status", "dryRun": True})
    assert rehearsed.status_code == 400
    assert rehearsed.json()["error"]["message"].startswith("at /dryRun: not supported")
    assert ToolCall.objects.count() == before + 1


async def test_caller_must_be_authenticated_with_write_permission(call, live, make_user):
    assert (await call({"tool": "read"}, token="")).status_code == 401
    assert (await call({"tool": "read"}, token="claw_nothing")).status_code == 401
    assert (await call({"tool": "read"}, user=make_user("Auditor"))).status_code == 403
    async with httpx.AsyncClient(base_url=live.url) as client:
        looked = await client.get("/tools/invoke")
    assert (looked.status_code, looked.headers["Allow"]) == (405, "POST")


async def test_foreign_session_is_not_found(call, make_user, make_session):
    theirs = make_session(make_user())
    answer = await call({"tool": "session_status", "sessionKey": f"session:{theirs.id}"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found")
    assert not Run.objects.filter(session=theirs).exists()


async def test_cookie_requires_the_csrf_token(call, live, settings):
    browser = Browser()
    assert browser.login(username=call.user.username, password=PASSWORD)
    signed_in = browser.cookies[settings.SESSION_COOKIE_NAME].value
    token = "a" * 32
    cookies = f"{settings.SESSION_COOKIE_NAME}={signed_in}; {settings.CSRF_COOKIE_NAME}={token}"
    body = {"tool": "session_status"}
    assert (await call(body, token="", Cookie=cookies)).status_code == 403
    assert (await call(body, token="", Cookie=cookies, **{"X-CSRFToken": token})).status_code == 200


async def test_socket_method_behaves_like_http(live, make_user):
    async with live.client(make_user()) as client:
        wish = {"name": "write", "args": {"path": "a.md", "content": "# A"}, "idempotencyKey": "written-once"}
        done = await client.request("tools.invoke", wish)
        assert done["ok"]
        assert await client.request("tools.invoke", wish) == done
        assert done["toolName"] == "write"
        refused = await client.request("tools.invoke", {"name": "write", "args": {}, "sessionKey": "agent:demo:main"})
        assert (refused["ok"], refused["error"]["code"], refused["error"]["layer"]) == (False, "tool_not_allowed", "profile")
        seen = await client.request("tools.effective", {"sessionKey": "main"})
        offered = {tool["id"] for group in seen["groups"] for tool in group["tools"]}
        assert {"read", "write", "session_status"} <= offered
        assert seen["profile"] == "coding"
        demo = await client.request("tools.effective", {"sessionKey": "agent:demo:main"})
        source = {"code": "policy.profile", "params": {"name": "minimal"}}
        code = {"code": "policy.not_listed_in", "params": {"source": source}}
        assert {"id": "write", "layer": "profile", "rule": "not in the `minimal` profile", **code} in demo["refused"]
        catalog = await client.request("tools.catalog", {})
        assert {"minimal", "coding", "messaging", "full"} == {profile["id"] for profile in catalog["profiles"]}
        fs = next(group for group in catalog["groups"] if group["id"] == "fs")
        assert {"read", "write", "edit", "glob", "grep"} <= {tool["id"] for tool in fs["tools"]}


async def test_direct_call_is_queued_and_can_be_aborted(live, make_user, eventually):
    user, key = make_user(), "agent:main:busy"
    async with live.client(user) as client:
        await client.request("chat.send", {"message": "[[tokens=3 hang_after=1]]", "sessionKey": key, "idempotencyKey": "long"})
        await eventually(lambda: Run.objects.filter(run_id="long", owner=user, status="running").exists())
        wish = {"name": "session_status", "sessionKey": key, "idempotencyKey": "mine"}
        late = await client.request("tools.invoke", {**wish, "timeoutMs": 50})
        assert (late["ok"], late["error"]["code"]) == (False, "timeout")
        asked = asyncio.create_task(client.request("tools.invoke", wish))
        await eventually(lambda: Run.objects.filter(run_id="mine", owner=user, status="accepted").exists())
        await client.request("chat.abort", {"sessionKey": key})
        answer = await asked
    assert (answer["ok"], answer["error"]["code"]) == (False, "aborted")
