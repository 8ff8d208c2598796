"""A token that may use only some tools: its limits apply to all runs it starts, directly or indirectly."""

import httpx
import pytest

from clawsite.accounts.tokens import find_principal, issue_token, limit_token
from clawsite.client import Client, Endpoint
from clawsite.infra.reasons import Reason
from sessions_app.models import Run, ToolCall
from tests.harness.commands import exec_prompt
from tests.harness.worker import WorkerHarness, calls_of


@pytest.fixture
def limited(make_user):
    """user, token, secret"""
    user = make_user()
    limits = {"allow_tools": ["session_status"], "deny_tools": ["Exec "]}
    token, secret = issue_token(user, "ci", ["operator.read", "operator.write"], **limits)
    return user, token, secret


async def test_http_and_socket_runs_respect_token_limits(live, limited):
    user, token, secret = limited
    headers = {"Authorization": f"Bearer {secret}"}
    asked = {"model": "clawsite", "messages": [{"role": "user", "content": exec_prompt(tool="read", path="x")}]}
    async with httpx.AsyncClient(base_url=live.url, headers=headers, timeout=60) as client:
        assert (await client.post("/v1/chat/completions", json=asked)).json()["choices"][0]["message"]["content"] == "done"
        invoked = await client.post("/tools/invoke", json={"tool": "read", "args": {"path": "x"}})
        assert (invoked.status_code, invoked.json()["error"]["layer"]) == (403, "key")
        assert (await client.post("/tools/invoke", json={"tool": "session_status"})).status_code == 200
    call = ToolCall.objects.filter(run__owner=user).earliest("pk")
    assert (call.name, call.status, call.refused_by) == ("read", "refused", "key")
    rule = Reason("policy.not_listed_in", source=Reason("policy.access_token", name=token.prefix))
    assert call.verdict["trace"]["read"][-1]["rule"] == rule.to_json()
    assert call.run.options["keyLimits"] == {"name": token.prefix, "allow": ["session_status"], "deny": ["exec"]}
    async with Client(Endpoint(url=live.ws_url(), token=secret)) as client:
        seen = await client.request("tools.effective", {})
        assert [tool["id"] for group in seen["groups"] for tool in group["tools"]] == ["session_status"]
        refused = await client.request("tools.invoke", {"name": "read", "args": {"path": "x"}})
        assert refused["error"]["layer"] == "key"
    async with live.client(user) as client:  # the same account without limits
        assert (await client.request("tools.invoke", {"name": "session_status"}))["ok"]
        assert "keyLimits" not in Run.objects.filter(owner=user).latest("pk").options


async def test_changed_limits_apply_to_the_next_run(limited):
    _user, token, secret = limited
    limit_token(token, allow_tools=[], deny_tools=[])
    assert find_principal(secret).user.key_limits is None
    type(token).objects.filter(pk=token.pk).update(tools={"allow": "exec"})
    assert find_principal(secret).user.key_limits["deny"] == ["*"]


async def test_message_to_another_session_carries_token_limits(harness: WorkerHarness, make_session, eventually):
    other = make_session(harness.user, "agent:main:other")
    harness.user.key_limits = {"name": "abc", "allow": [], "deny": ["read"]}
    words = exec_prompt(tool="read", path="x", then="told")
    ask = exec_prompt(tool="sessions_send", session_key=other.key, message=words, timeout_seconds=0)
    run = await harness.answer(ask)
    assert calls_of(run)[0].status == "finished", calls_of(run)[0].result
    sent = await harness.ended(Run.objects.get(session=other).pk)
    assert sent.options["keyLimits"]["name"] == "abc"
    assert [(call.name, call.refused_by) for call in calls_of(sent)] == [("read", "key")]
