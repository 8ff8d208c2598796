"""Requests under way: many at once, the same twice, in order, and when something is wrong on our side."""

import asyncio
import contextlib
import json

from django.db import OperationalError
from websockets.exceptions import ConnectionClosed

from clawsite.gateway.server import registry, runtime
from sessions_app.models import Run, Session

KEY = "agent:main:main"


def send_params(run_id, message="hi", key=KEY):
    return {"sessionKey": key, "message": message, "idempotencyKey": run_id}


async def test_a_hundred_identical_requests_start_one_run_and_get_one_answer(sockets):
    clients = [await sockets.connect() for _ in range(5)]
    answers = await asyncio.gather(*(client.call("agent", send_params("same")) for client in clients for _ in range(20)))
    assert {json.dumps(answer) for answer in answers} == {json.dumps(answers[0])}
    assert Run.objects.count() == 1


async def test_ten_identical_requests_make_one_session_with_one_run(sockets):
    clients = [await sockets.connect() for _ in range(2)]
    asked = {"idempotencyKey": "same", "message": "hi"}
    answers = await asyncio.gather(*(client.call("sessions.create", asked) for client in clients for _ in range(5)))
    assert {(answer["sessionId"], answer["runId"]) for answer in answers} == {(answers[0]["sessionId"], "same")}
    assert (Session.objects.count(), Run.objects.count()) == (1, 1)


async def test_messages_to_one_session_are_queued_in_the_order_they_were_sent(sockets):
    socket = await sockets.connect()
    for n in range(40):
        await socket.send(
            {"type": "req", "id": str(n), "method": "chat.send", "params": send_params(f"k{n:02}", key=KEY if n % 2 else "main")}
        )
    for n in range(40):
        assert (await socket.response(str(n)))["ok"]
    assert list(Run.objects.order_by("pk").values_list("run_id", flat=True)) == [f"k{n:02}" for n in range(40)]
    assert Session.objects.count() == 1


async def test_a_call_that_waits_does_not_hold_up_the_one_that_ends_it(sockets):
    socket = await sockets.connect()
    await socket.call("chat.send", send_params("k1"))
    waiting = asyncio.create_task(socket.call("agent.wait", {"runId": "k1"}))
    await asyncio.sleep(0)
    assert (await socket.call("chat.abort", {"sessionKey": KEY}))["aborted"]
    assert await waiting == {**await waiting, "status": "ok", "aborted": True}


async def test_a_burst_of_quick_requests_is_all_answered(sockets, monkeypatch):
    monkeypatch.setattr("clawsite.gateway.protocol.limits.SLOT_SECONDS", 30.0)  # a busy machine needs longer than the usual two
    socket = await sockets.connect()
    answers = await asyncio.gather(*(socket.request("chat.send", send_params(f"k{n}", key=f"agent:main:s{n}")) for n in range(90)))
    assert all(answer["ok"] for answer in answers)


async def test_the_65th_request_that_waits_is_refused_for_now(sockets, monkeypatch):
    monkeypatch.setattr("clawsite.gateway.protocol.limits.SLOT_SECONDS", 0.05)
    socket = await sockets.connect()
    await socket.call("chat.send", send_params("k1"))
    for n in range(65):
        await socket.send({"type": "req", "id": f"w{n}", "method": "agent.wait", "params": {"runId": "k1"}})
    refused = await socket.response("w64")
    assert (refused["error"]["code"], refused["error"]["retryable"]) == ("UNAVAILABLE", True)


async def test_many_sockets_are_no_way_around_the_rate_of_an_account(sockets, settings, user, make_token):
    settings.GATEWAY_ACCOUNT_REQUESTS_PER_SECOND, settings.GATEWAY_ACCOUNT_REQUESTS_BURST = 0.001, 3
    token = make_token(user)
    one, two, other = await sockets.connect(token), await sockets.connect(token), await sockets.connect()
    for socket in (one, two, one):
        assert await socket.call("health")
    for socket in (one, two):
        refused = await socket.request("health")
        assert (refused["error"]["code"], refused["error"]["retryable"]) == ("UNAVAILABLE", True)
        assert refused["error"]["message"] == "Too many requests from this account. Slow down."
    assert await other.call("health"), "another account has its own"


async def test_who_stands_at_the_door_without_a_word_keeps_only_its_own_address_waiting(sockets, settings):
    settings.GATEWAY_KNOCKS_PER_ADDRESS = 2
    settings.TRUSTED_PROXIES = 1
    silent = [await sockets.open(headers={"X-Forwarded-For": "203.0.113.9"}) for _ in range(2)]
    for socket in silent:
        await socket.event("connect.challenge")
    refused = await sockets.open(headers={"X-Forwarded-For": "203.0.113.9"})
    assert (await refused.closed())[0] == 1013
    assert await sockets.connect(headers={"X-Forwarded-For": "203.0.113.10"})
    await silent[0].close()
    again = await sockets.connect(headers={"X-Forwarded-For": "203.0.113.9"})
    assert await sockets.connect(headers={"X-Forwarded-For": "203.0.113.9"}), "who was let in does not stand there any more"
    assert await again.call("health")


async def test_a_bug_is_told_by_a_reference_and_costs_only_that_request(sockets, monkeypatch, caplog):
    async def broken(call, params):
        raise ZeroDivisionError("secret detail")

    health = registry.list_methods()["health"]
    broken_one = registry.Method(health.name, health.scopes, health.params, health.result, broken, health.description, None)
    monkeypatch.setitem(registry.list_methods(), "health", broken_one)
    socket = await sockets.connect()
    error = (await socket.request("health"))["error"]
    assert error["code"] == "UNAVAILABLE"
    assert error["message"].startswith("internal error (reference ")
    assert "secret detail" not in json.dumps(error)
    reference = error["message"].split()[-1].rstrip(")")
    assert any(reference in record.getMessage() and record.exc_info for record in caplog.records)
    assert await socket.call("agents.list")


async def test_a_database_that_cannot_be_written_is_explained(sockets, monkeypatch):
    socket = await sockets.connect()

    def read_only(**_):
        raise OperationalError("attempt to write a readonly database")

    monkeypatch.setattr("clawsite.routing.inbound.accept_run", read_only)
    error = (await socket.request("chat.send", send_params("k1")))["error"]
    assert (error["code"], error["retryable"]) == ("UNAVAILABLE", True)
    assert "read-only" in error["message"]
    assert Run.objects.count() == 0


async def test_a_key_at_the_frame_counts_like_one_in_the_parameters(sockets):
    socket = await sockets.connect(protocol=1)
    answer = await socket.request("chat.send", {"sessionKey": KEY, "message": "hi"}, idempotencyKey="outside")
    assert answer["payload"]["runId"] == "outside"
    assert (await socket.request("health", {}, idempotencyKey="unused"))["ok"]


async def test_stopping_the_process_tells_every_socket_and_closes_with_1012(sockets):
    socket, other = await sockets.connect(), await sockets.connect(protocol=1)
    await runtime.stop("restart for an upgrade", 2000)
    for one in (socket, other):
        assert await one.event("shutdown") == {"reason": "restart for an upgrade", "restartExpectedMs": 2000}
        assert await one.closed() == (1012, "service restart")


async def test_a_client_that_does_not_read_is_closed_and_nobody_else_notices(sockets):
    slow = await sockets.open(max_queue=1)
    slow._reader.cancel()  # from here on it does not read
    first = {"minProtocol": 4, "maxProtocol": 4, "client": {"id": "slow"}, "auth": {"token": "test-gateway-token"}}
    await slow.send({"type": "req", "id": "c", "method": "connect", "params": first})
    quick = await sockets.connect()
    await quick.call("sessions.create", {"key": KEY})
    hub = (await runtime.get_runtime()).hub
    for _ in range(400):
        await quick.call("chat.inject", {"sessionKey": KEY, "message": "x" * 60_000})
        if all(connection.line.closing for connection in hub.audience if connection.client.id == "slow"):
            break
    else:
        raise AssertionError("it was never closed")
    told = [payload["cursor"] for payload in quick.events("session")]
    assert told == list(range(1, len(told) + 1))
    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionClosed):
            async for _ in slow.ws:
                pass
    assert slow.ws.close_code == 1008
    assert slow.ws.close_reason.startswith("slow consumer, last seq ")


async def test_who_is_online_is_told_when_somebody_comes_and_goes(sockets):
    watcher = await sockets.connect(protocol=4)
    classic = await sockets.connect(protocol=1)
    page = await sockets.connect(client={"id": "page", "version": "1", "platform": "web", "mode": "webchat", "instanceId": "i1"})
    frame = await watcher.find(
        lambda f: f.get("event") == "presence" and any(entry.get("host") == "page" for entry in f["payload"]["presence"])
    )
    assert frame["stateVersion"].keys() == {"presence", "health"}
    await classic.event("presence", id="page", status="online")
    await page.close()
    await classic.event("presence", id="page", status="offline")
    assert not any(entry.get("host") == "page" for entry in await watcher.call("system-presence"))
