"""How much memory unauthenticated clients can make the server use."""

import asyncio
import struct

from clawsite.gateway.protocol.limits import MAX_FIRST_FRAME_BYTES

UPGRADE = (
    "GET /ws HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
TEXT, FINAL, MASKED, LONG, CLOSE = 0x1, 0x80, 0x80, 127, 0x8


async def test_oversized_frame_is_rejected_at_its_header(address):
    """The frame is rejected before it is complete: a thousand frames that never end would fill the memory."""
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(UPGRADE.format(address).encode())
    await reader.readuntil(b"\r\n\r\n")
    opcode, _challenge = await frame(reader)
    assert opcode == TEXT
    writer.write(struct.pack("!BBQ", FINAL | TEXT, MASKED | LONG, MAX_FIRST_FRAME_BYTES * 2) + b"mask" + b"the beginning")
    async with asyncio.timeout(20):
        opcode, data = await frame(reader)
    assert opcode == CLOSE
    assert struct.unpack("!H", data[:2]) == (1009,)
    writer.close()


async def frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    first, size = await reader.readexactly(2)
    if size == 126:
        (size,) = struct.unpack("!H", await reader.readexactly(2))
    return first & 0x0F, await reader.readexactly(size)


async def test_large_frames_are_accepted_after_connect(sockets, user, make_token):
    socket = await sockets.connect(make_token(user))
    answer = await socket.request("health", {"unknown": "x" * (MAX_FIRST_FRAME_BYTES * 3)})
    assert answer["error"]["code"] == "INVALID_REQUEST"
    assert (await socket.request("health"))["ok"]


async def test_frame_with_too_many_values_is_rejected_before_parsing(sockets, user, make_token):
    socket = await sockets.connect(make_token(user))
    await socket.send('{"type":"req","id":"1","method":"health","traceparent":[' + "[]," * 310_000 + "[]]}")
    refusal = await socket.find(lambda each: each.get("id") == "invalid")
    assert "more than 300000 values" in refusal["error"]["message"]
    assert (await socket.request("health"))["ok"]


async def test_invalid_traceparent_is_ignored(sockets, user, make_token):
    socket = await sockets.connect(make_token(user))
    for odd in (["x"], "x" * 1000, {"a": 1}):
        assert (await socket.request("health", traceparent=odd))["ok"]


async def test_subscriptions_per_connection_are_limited(sockets, user, make_token, monkeypatch):
    monkeypatch.setattr("clawsite.gateway.protocol.limits.MAX_FOLLOWED", 2)
    socket = await sockets.connect(make_token(user))
    for name in ("a", "b", "a"):  # a session that is already followed doesn't count again
        assert (await socket.request("sessions.messages.subscribe", {"key": f"agent:main:{name}"}))["ok"]
    refused = await socket.request("sessions.messages.subscribe", {"key": "agent:main:c"})
    assert "maximum of 2 sessions" in refused["error"]["message"]
    assert (await socket.request("sessions.messages.unsubscribe", {"key": "agent:main:a"}))["ok"]
    assert (await socket.request("sessions.messages.subscribe", {"key": "agent:main:c"}))["ok"]
