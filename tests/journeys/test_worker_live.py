"""The whole path: a client, the gateway, the queue, a worker, the model, and back, in separate processes."""

import asyncio

import pytest

from tests.harness.worker import token_text

pytestmark = pytest.mark.dialect


async def heard_by(client, key: str) -> list[tuple]:
    """Collect all events of a session, up to the end of its first run."""
    told = []
    async for event in client.follow(key):
        told.append((event.cursor, event.run_id, event.seq, event.stream, event.data))
        if event.ends_run:
            return told
    raise AssertionError("the stream ended before the run")


async def test_all_web_processes_send_subscribers_the_same_events(live, make_user):
    user, key = make_user(), "agent:main:same"
    async with live.client(user) as sends, live.client(user) as near, live.client(user, n=len(live.webs) - 1) as far:
        watching = [asyncio.create_task(heard_by(client, key)) for client in (near, far)]
        asked = {"message": "[[tokens=40 delay_ms=5]]", "sessionKey": key, "idempotencyKey": "k1"}
        answer = await sends.request("agent", asked, expect_final=True)
        told = await asyncio.gather(*watching)
    assert answer["result"]["payloads"] == [{"text": token_text(40)}]
    assert told[0] == told[1]
    assert "".join(data.get("delta", "") for *_, stream, data in told[0] if stream == "assistant") == token_text(40)


async def test_gateway_token_has_its_own_sessions(live, make_user):
    user, key = make_user(), "agent:main:own"
    async with live.client(user) as mine, live.client() as program:
        await mine.request("agent", {"message": "[[text=mine]]", "sessionKey": key, "idempotencyKey": "k1"}, expect_final=True)
        await program.request("agent", {"message": "[[text=its]]", "sessionKey": key, "idempotencyKey": "k1"}, expect_final=True)
        seen = [
            (await client.request("chat.history", {"sessionKey": key}))["messages"][-1]["content"] for client in (mine, program)
        ]
    assert seen == [[{"type": "text", "text": "mine"}], [{"type": "text", "text": "its"}]]


async def test_demo_agent_replies_without_a_model_server(live, make_user):
    async with live.client(make_user()) as client:
        asked = {"message": "status", "sessionKey": "agent:demo:main", "idempotencyKey": "k1"}
        answer = await client.request("agent", asked, expect_final=True, timeout=60)
    assert answer["result"]["meta"]["agentMeta"]["provider"] == "demo"
    assert answer["result"]["payloads"][0]["text"]


async def test_abort_reaches_the_worker_from_any_web_process(live, make_user, eventually):
    user, key = make_user(), "agent:main:stop"
    async with live.client(user) as one, live.client(user, n=len(live.webs) - 1) as other:
        asked = {"message": "[[tokens=9 hang_after=2]]", "sessionKey": key, "idempotencyKey": "k1"}
        ending = asyncio.create_task(one.request("agent", asked, expect_final=True))

        async def is_hanging():
            active = (await other.request("chat.history", {"sessionKey": key})).get("activeRun") or {}
            return active.get("text") == token_text(2)

        await eventually(is_hanging)
        assert await other.request("chat.abort", {"sessionKey": key}) == {"ok": True, "aborted": True, "runIds": ["k1"]}
        assert (await ending)["summary"] == "aborted"
