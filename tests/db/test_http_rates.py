"""Rate limits of an account over HTTP: shared with its sockets and all entry points, and reported in the format of each."""

import json

import pytest
from django.test import AsyncClient

from clawsite.accounts.groups import scopes_of
from clawsite.accounts.tokens import issue_token
from clawsite.gateway.server import runtime
from tests.harness.protocol import InProcessClient, running_gateway

pytestmark = pytest.mark.dialect

V1, INVOKE, API = "/v1/chat/completions", "/tools/invoke", "/api/agents"


@pytest.fixture
async def ask(user, make_user, settings):
    """`await ask(path)` returns the response to a request with an invalid body."""
    settings.GATEWAY_ACCOUNT_REQUESTS_PER_SECOND, settings.GATEWAY_ACCOUNT_REQUESTS_BURST = 0.01, 2
    tokens = [issue_token(each, "t", sorted(scopes_of(each)))[1] for each in (user, make_user())]

    async def asked(path: str, who: int = 0):
        headers = {"Authorization": f"Bearer {tokens[who]}"}
        if path == API:
            return await AsyncClient().get(path, headers=headers)
        return await AsyncClient().post(path, b"not JSON", content_type="application/json", headers=headers)

    asked.token = tokens[0]
    async with running_gateway():
        yield asked


@pytest.mark.parametrize("path", [V1, INVOKE, API])
async def test_rate_limited_account_gets_retry_after(ask, path):
    for _ in range(2):
        assert (await ask(path)).status_code in (200, 400)
    refused = await ask(path)
    assert refused.status_code == 429
    assert 40 <= int(refused["Retry-After"]) <= 100  # one token takes 100 s, minus the time since the first request
    told = json.loads(refused.content)
    words = "too many requests from this account; slow down"
    if path == V1:
        shape = {"message": words, "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"}
        assert told == {"error": shape}
    elif path == INVOKE:
        assert told == {"ok": False, "error": {"type": "unavailable", "message": words}}
    else:
        assert (told["code"], told["detail"], told["retryable"]) == ("UNAVAILABLE", words, True)
    assert (await ask(path, who=1)).status_code in (200, 400), "another account has its own"


async def test_http_and_websocket_requests_share_rate_limit(ask):
    client = await InProcessClient.open(ask.token)
    assert (await client.request("health"))["ok"]
    assert (await ask(API)).status_code == 200
    assert (await client.request("health"))["error"]["message"] == "Too many requests from this account. Slow down."
    assert (await ask(V1)).status_code == 429
    client.disconnect()


async def test_requests_succeed_if_buckets_are_not_kept(ask, monkeypatch):
    """Deliberate fault: a bucket created for each request never runs empty."""
    rates = runtime.rate_limits()
    monkeypatch.setattr(rates, "_account_buckets", type("Forgetful", (dict,), {"get": lambda *_: None})())
    assert [(await ask(API)).status_code for _ in range(4)] == [200] * 4
