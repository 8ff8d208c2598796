"""The bus of this profile: Unix sockets, or Redis. Two transports stand for two processes."""

import asyncio

import orjson
import pytest
from django.conf import settings

from clawsite.infra import bus
from clawsite.infra.bus_unix import UnixTransport

pytestmark = pytest.mark.usefixtures("database")


async def test_what_one_process_publishes_reaches_its_own_and_another(bus_messages, eventually, monkeypatch):
    other = bus._make_transport()
    await other.start()
    try:
        if not settings.REDIS_URL:
            await eventually(lambda: bus._transport._listeners)
        bus.publish({"k": "own"})
        await eventually(lambda: {"k": "own"} in bus_messages)
        other.send(orjson.dumps({"k": "theirs"}))
        await eventually(lambda: {"k": "theirs"} in bus_messages)
        assert bus_messages.count({"k": "own"}) >= 1
    finally:
        await other.stop()


async def test_a_message_is_published_only_after_the_commit(bus_messages, user, session_of, eventually):
    from django.db import transaction

    from sessions_app import events

    with pytest.raises(RuntimeError), transaction.atomic():
        events.wake(1, "accepted")
        raise RuntimeError
    with transaction.atomic():
        events.wake(2, "accepted")
    await eventually(lambda: any(message.get("run") == 2 for message in bus_messages))
    assert not any(message.get("run") == 1 for message in bus_messages)


async def test_a_failing_subscriber_does_not_keep_others_from_hearing(bus_messages, eventually):
    stop = bus.subscribe(lambda message: 1 / 0)
    bus.publish({"k": "still heard"})
    await eventually(lambda: {"k": "still heard"} in bus_messages)
    stop()


async def test_a_socket_left_by_a_killed_process_is_removed(tmp_path, eventually):
    directory = tmp_path / "bus"
    directory.mkdir(mode=0o700)
    dead = directory / "dead.sock"
    server = await asyncio.start_unix_server(lambda r, w: None, dead)
    server.close()
    assert dead.exists()
    transport = UnixTransport(directory, receive=print)
    await transport.start()
    await eventually(lambda: not dead.exists())
    await transport.stop()


async def test_a_very_long_state_directory_still_has_a_bus(tmp_path):
    transport = UnixTransport(tmp_path / ("d" * 120) / "bus", receive=print)
    await transport.start()
    await transport.stop()
