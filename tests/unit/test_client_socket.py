"""One socket of the Python client: handshake, requests, events, and how it ends."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from clawsite.client import Connection, ConnectionLost, Endpoint, GatewayError, Unreachable
from tests.unit.stub_gateway import StubGateway, stub_gateway


@pytest.fixture
async def gateway() -> AsyncIterator[StubGateway]:
    async with stub_gateway() as stub:
        yield stub


async def test_connect_is_sent_after_the_challenge(gateway: StubGateway) -> None:
    connection = await Connection.open(gateway.endpoint(client_id="gateway-client", mode="backend", scopes=("operator.read",)))
    request = gateway.requests[0]
    assert request["method"] == "connect"
    assert request["params"]["auth"] == {"token": "secret-token"}
    assert request["params"]["client"]["id"] == "gateway-client"
    assert request["params"]["scopes"] == ["operator.read"]
    assert connection.hello["type"] == "hello-ok"
    await connection.close()


async def test_rejected_token_is_an_auth_error(gateway: StubGateway) -> None:
    gateway.refuse = {"code": "INVALID_REQUEST", "message": "unauthorized", "details": {"code": "AUTH_TOKEN_MISMATCH"}}
    with pytest.raises(GatewayError) as refused:
        await Connection.open(gateway.endpoint())
    assert refused.value.is_about_auth


async def test_closed_port_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="no gateway responds"):
        await Connection.open(Endpoint(url="ws://127.0.0.1:1/ws"))


async def test_responses_are_matched_to_requests_in_any_order(gateway: StubGateway) -> None:
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


async def test_error_frame_is_raised_with_its_code(gateway: StubGateway) -> None:
    connection = await Connection.open(gateway.endpoint())
    with pytest.raises(GatewayError, match="unknown method") as raised:
        await connection.request("no.such.method")
    assert raised.value.code == "INVALID_REQUEST"
    await connection.close()


async def test_expect_final_skips_accepted(gateway: StubGateway) -> None:
    connection = await Connection.open(gateway.endpoint())
    waiting = asyncio.create_task(connection.request("agent", {"idempotencyKey": "k"}, expect_final=True))
    request = await gateway.wait_for_request("agent")
    final = {"type": "res", "id": request["id"], "ok": True, "payload": {"status": "ok", "runId": "k"}}
    await gateway.sockets[0].send(json.dumps(final))
    assert (await waiting)["status"] == "ok"
    await connection.close()


async def test_request_without_response_times_out_and_is_removed(gateway: StubGateway) -> None:
    connection = await Connection.open(gateway.endpoint())
    gateway.on_request = lambda socket, frame: {"silent": True}
    with pytest.raises(TimeoutError):
        await connection.request("echo", timeout=0.01)
    assert connection._pending == {}
    await connection.close()


async def test_lost_connection_fails_pending_requests_and_ends_listeners(gateway: StubGateway) -> None:
    connection = await Connection.open(gateway.endpoint())
    gateway.on_request = lambda socket, frame: {"silent": True}
    with connection.listen() as frames:
        waiting = asyncio.create_task(connection.request("echo"))
        await gateway.wait_for_request("echo")
        await gateway.drop_all()
        with pytest.raises(ConnectionLost):
            await waiting
        assert await frames.get() is None
    with pytest.raises(ConnectionLost):
        await connection.request("echo")


async def test_connection_is_closed_after_two_missed_ticks(gateway: StubGateway) -> None:
    gateway.tick_ms = 20
    connection = await Connection.open(gateway.endpoint())
    with connection.listen() as frames:
        assert await frames.get() is None
    assert "two ticks" in (connection.lost_because or "")
