"""Clients that vanish, and many that are disconnected at once: no other client is affected, and none misses an event."""

import asyncio
import socket

import pytest

from clawsite.cli.commands import web
from clawsite.client import Client, Endpoint
from clawsite.client import client as client_module
from clawsite.gateway.server import runtime
from tests.harness.gateway import serve_gateway
from tests.harness.protocol import SocketClients

pytestmark = pytest.mark.dialect

KEY = "agent:main:main"
CROWD = 100


@pytest.fixture
async def impatient_address(database, settings):
    """A server that pings every second instead of every 20."""
    settings.POLL_SECONDS = 0.2
    async with serve_gateway(ws_ping_interval=1.0, ws_ping_timeout=1.0) as address:
        yield address


async def test_vanished_client_is_dropped_without_affecting_others(impatient_address, eventually):
    sockets = SocketClients(impatient_address)
    gone, other = await sockets.connect(client={"id": "gone", "mode": "ui"}), await sockets.connect()
    await other.call("sessions.create", {"key": KEY})
    audience = (await runtime.get_runtime()).hub.audience
    gone.ws.transport.pause_reading()  # as if the host were off: reads nothing, responds to nothing and closes nothing
    await eventually(lambda: not any(connection.client.id == "gone" for connection in audience))
    assert not any(entry.get("id") == "gone" for entry in await other.call("system-presence"))
    for number in range(5):
        await other.call("chat.inject", {"sessionKey": KEY, "message": str(number)})
    await other.event("session", cursor=5)
    assert [payload["cursor"] for payload in other.events("session")] == [1, 2, 3, 4, 5]
    assert other.ws.close_code is None
    gone.ws.transport.resume_reading()
    await sockets.close()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="an option of Linux")
def test_unread_data_does_not_keep_a_dead_connection():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        web._set_unread_timeout(listener, 500)
        reader = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        accepted.settimeout(30)
        with pytest.raises(OSError, match="timed out"), reader, accepted:
            while True:
                accepted.sendall(b"x" * 65_536)


async def test_hundred_disconnected_clients_reconnect_without_losing_events(sockets, worker, make_token, user, monkeypatch):
    monkeypatch.setattr(client_module, "FIRST_DELAY", 0.05)
    token = make_token(user)
    watcher = await sockets.connect(token)
    await watcher.call("chat.send", {"sessionKey": KEY, "message": "go", "idempotencyKey": "r1"})
    await worker.start("r1")
    endpoint = Endpoint(f"ws://{sockets.address}/ws", token, caps=("tool-events", "session-scoped-events"))
    clients = [Client(endpoint) for _ in range(CROWD)]
    following = [asyncio.create_task(cursors_of(client)) for client in clients]
    await worker.stream("r1", "one ", "two ")
    connections = [await client.connection() for client in clients]
    for connection in connections:
        connection._socket.transport.abort()
    for word in ("three ", "four ", "five"):
        await worker.stream("r1", word)
    await worker.finish("r1")
    told = await asyncio.wait_for(asyncio.gather(*following), 60)
    assert all(connection.lost_because for connection in connections)
    assert {tuple(cursors) for cursors in told} == {tuple(range(1, len(told[0]) + 1))}
    await watcher.event("chat", state="final")
    seen = [payload["cursor"] for payload in watcher.events("agent")]
    assert seen == list(range(seen[0], told[0][-1] + 1))
    assert [frame["seq"] for frame in watcher.seen if "seq" in frame] == list(range(1, watcher.seen[-1]["seq"] + 1))
    for client in clients:
        await client.__aexit__()


async def cursors_of(client: Client) -> list[int]:
    """Collect every event of the session, to the end of its run."""
    cursors = []
    async for event in client.follow(KEY):
        cursors.append(event.cursor)
        if event.ends_run:
            return cursors
    raise AssertionError("it ended before the run")
