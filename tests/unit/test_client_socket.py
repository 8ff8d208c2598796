"""One socket of the Python client: handshake, requests, events, and every way it can end."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from clawsite.client.client import Connection, ConnectionLost, Endpoint, GatewayError, Unreachable
from tests.unit.stub_gateway import StubGateway, stub_gateway


@pytest.fixture
async def gateway() -> AsyncIterator[StubGateway]:
    async with stub_gateway() as stub:
        yield stub


async def test_it_waits_for_the_challenge_and_introduces_itself(gateway: StubGateway) -> None:
    connection = await Connection.open(gateway.endpoint(client_id="gateway-client", mode="backend", scopes=("operator.read",)))
    asked = gateway.requests[0]
    assert asked["method"] == "connect"
    assert asked["params"]["auth"] == {"token": "secret-token"}
    assert asked["params"]["client"]["id"] == "gateway-client"
    assert asked["params"]["scopes"] == ["operator.read"]
    assert connection.hello["type"] == "hello-ok"
    await connection.close()


async def test_a_refused_token_is_an_error_of_the_gateway_about_auth(gateway: StubGateway) -> None:
    gateway.refuse = {"code": "INVALID_REQUEST", "message": "unauthorized", "details": {"code": "AUTH_TOKEN_MISMATCH"}}
    with pytest.raises(GatewayError) as refused:
        await Connection.open(gateway.endpoint())
    assert refused.value.is_about_auth


async def test_where_nobody_listens_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="no gateway responds"):
        await Connection.open(Endpoint(url="ws://127.0.0.1:1/ws"))


async def test_answers_find_their_requests_in_any_order(gateway: StubGateway) -> None:
    connection = await Connection.open(gateway.endpoint())
    held: list[dict] = []

    def hold_the_first(socket, frame):
        if frame["method"] == "echo" and not held:
            held.append(frame)
            return {"silent": True}
        return None

    gateway.on_request = hold_the_first
    first = asyncio.create_task(connection.request("echo", {"n": 1}))
    await asyncio.sleep(0)
    assert await connection.request("echo", {"n": 2}) == {"n": 2}
    await gateway.sockets[0].send(json.dumps({"type": "res", "id": held[0]["id"], "ok": True, "payload": {"n": 1}}))
    assert await first == {"n": 1}
    await connection.close()


async def test_an_error_frame_is_raised_with_its_code(gateway: StubGateway) -> None:
    connection = await Connection.open(gateway.endpoint())
    with pytest.raises(GatewayError, match="unknown method") as raised:
        await connection.request("no.such.method")
    assert raised.value.code == "INVALID_REQUEST"
    await connection.close()


async def test_expect_final_passes_over_accepted(gateway: StubGateway) -> None:
    connection = await Connection.open(gateway.endpoint())
    waiting = asyncio.create_task(connection.request("agent", {"idempotencyKey": "k"}, expect_final=True))
    asked = await gateway.asked("agent")
    final = {"type": "res", "id": asked["id"], "ok": True, "payload": {"status": "ok", "runId": "k"}}
    await gateway.sockets[0].send(json.dumps(final))
    assert (await waiting)["status"] == "ok"
    await connection.close()


async def test_a_request_that_is_not_answered_times_out_and_is_forgotten(gateway: StubGateway) -> None:
    connection = await Connection.open(gateway.endpoint())
    gateway.on_request = lambda socket, frame: {"silent": True}
    with pytest.raises(TimeoutError):
        await connection.request("echo", timeout=0.01)
    assert connection._pending == {}
    await connection.close()


async def test_a_lost_connection_fails_what_waits_and_tells_the_listeners(gateway: StubGateway) -> None:
    connection = await Connection.open(gateway.endpoint())
    gateway.on_request = lambda socket, frame: {"silent": True}
    with connection.listen() as frames:
        waiting = asyncio.create_task(connection.request("echo"))
        await gateway.asked("echo")
        await gateway.drop_all()
        with pytest.raises(ConnectionLost):
            await waiting
        assert await frames.get() is None
    with pytest.raises(ConnectionLost):
        await connection.request("echo")


async def test_two_ticks_of_silence_end_the_connection(gateway: StubGateway) -> None:
    gateway.tick_ms = 20
    connection = await Connection.open(gateway.endpoint())
    with connection.listen() as frames:
        assert await frames.get() is None
    assert "two ticks" in (connection.lost_because or "")
