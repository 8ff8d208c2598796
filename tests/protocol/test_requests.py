"""Requests in flight: many at once, repeated, in order, and during failures of the server."""

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


async def test_hundred_identical_requests_start_one_run_with_one_response(sockets):
    clients = [await sockets.connect() for _ in range(5)]
    answers = await asyncio.gather(*(client.call("agent", send_params("same")) for client in clients for _ in range(20)))
    assert {json.dumps(answer) for answer in answers} == {json.dumps(answers[0])}
    assert Run.objects.count() == 1


async def test_ten_identical_requests_create_one_session_and_run(sockets):
    clients = [await sockets.connect() for _ in range(2)]
    asked = {"idempotencyKey": "same", "message": "hi"}
    answers = await asyncio.gather(*(client.call("sessions.create", asked) for client in clients for _ in range(5)))
    assert {(answer["sessionId"], answer["runId"]) for answer in answers} == {(answers[0]["sessionId"], "same")}
    assert (Session.objects.count(), Run.objects.count()) == (1, 1)


async def test_session_messages_are_queued_in_send_order(sockets):
    socket = await sockets.connect()
    for n in range(40):
        await socket.send(
            {"type": "req", "id": str(n), "method": "chat.send", "params": send_params(f"k{n:02}", key=KEY if n % 2 else "main")}
        )
    for n in range(40):
        assert (await socket.response(str(n)))["ok"]
    assert list(Run.objects.order_by("pk").values_list("run_id", flat=True)) == [f"k{n:02}" for n in range(40)]
    assert Session.objects.count() == 1


async def test_waiting_call_does_not_block_the_abort(sockets):
    socket = await sockets.connect()
    await socket.call("chat.send", send_params("k1"))
    waiting = asyncio.create_task(socket.call("agent.wait", {"runId": "k1"}))
    await asyncio.sleep(0)
    assert (await socket.call("chat.abort", {"sessionKey": KEY}))["aborted"]
    assert await waiting == {**await waiting, "status": "ok", "aborted": True}


async def test_burst_of_requests_succeeds(sockets, monkeypatch):
    monkeypatch.setattr("clawsite.gateway.protocol.limits.SLOT_SECONDS", 30.0)  # a busy machine is slow
    socket = await sockets.connect()
    answers = await asyncio.gather(*(socket.request("chat.send", send_params(f"k{n}", key=f"agent:main:s{n}")) for n in range(90)))
    assert all(answer["ok"] for answer in answers)


async def test_request_over_concurrency_limit_is_rejected_as_retryable(sockets, monkeypatch):
    monkeypatch.setattr("clawsite.gateway.protocol.limits.SLOT_SECONDS", 0.05)
    socket = await sockets.connect()
    await socket.call("chat.send", send_params("k1"))
    for n in range(65):
        await socket.send({"type": "req", "id": f"w{n}", "method": "agent.wait", "params": {"runId": "k1"}})
    refused = await socket.response("w64")
    assert (refused["error"]["code"], refused["error"]["retryable"]) == ("UNAVAILABLE", True)


async def test_account_rate_limit_applies_across_sockets(sockets, settings, user, make_token):
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


async def test_pending_handshakes_are_limited_per_address(sockets, settings):
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


async def test_internal_error_returns_reference_and_fails_only_its_request(sockets, monkeypatch, caplog):
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


async def test_unwritable_database_returns_a_clear_error(sockets, monkeypatch):
    socket = await sockets.connect()

    def read_only(**_):
        raise OperationalError("attempt to write a readonly database")

    monkeypatch.setattr("clawsite.routing.inbound.accept_run", read_only)
    error = (await socket.request("chat.send", send_params("k1")))["error"]
    assert (error["code"], error["retryable"]) == ("UNAVAILABLE", True)
    assert "read-only" in error["message"]
    assert Run.objects.count() == 0


async def test_frame_idempotency_key_equals_one_in_parameters(sockets):
    socket = await sockets.connect(protocol=1)
    answer = await socket.request("chat.send", {"sessionKey": KEY, "message": "hi"}, idempotencyKey="outside")
    assert answer["payload"]["runId"] == "outside"
    assert (await socket.request("health", {}, idempotencyKey="unused"))["ok"]


async def test_shutdown_notifies_every_socket_and_closes_with_1012(sockets):
    socket, other = await sockets.connect(), await sockets.connect(protocol=1)
    await runtime.stop("restart for an upgrade", 2000)
    for one in (socket, other):
        assert await one.event("shutdown") == {"reason": "restart for an upgrade", "restartExpectedMs": 2000}
        assert await one.closed() == (1012, "service restart")


async def test_client_that_does_not_read_is_disconnected_alone(sockets):
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


async def test_presence_is_sent_on_connect_and_disconnect(sockets):
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
