"""The bus of this profile: Unix sockets, or Redis. Two transports stand for two processes."""

import asyncio
import os
import time

import orjson
import pytest
from django.conf import settings

from clawsite.infra import bus
from clawsite.infra.bus import unix_transport
from clawsite.infra.bus.unix_transport import UnixTransport

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


async def test_message_reaches_own_and_other_processes(bus_messages, eventually, monkeypatch):
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


async def test_message_is_published_only_after_commit(bus_messages, user, make_session, eventually):
    from django.db import transaction

    from sessions_app.events import announce

    with pytest.raises(RuntimeError), transaction.atomic():
        announce.notify_workers(1, "accepted")
        raise RuntimeError
    with transaction.atomic():
        announce.notify_workers(2, "accepted")
    await eventually(lambda: any(message.get("run") == 2 for message in bus_messages))
    assert not any(message.get("run") == 1 for message in bus_messages)


async def test_failing_subscriber_does_not_block_others(bus_messages, eventually):
    stop = bus.subscribe(lambda message: 1 / 0)
    bus.publish({"k": "still heard"})
    await eventually(lambda: {"k": "still heard"} in bus_messages)
    stop()


@pytest.fixture
async def processes(tmp_path, monkeypatch):
    """Make transports that meet in one directory: processes() -> transport, what it has heard. They look around often."""
    monkeypatch.setattr(unix_transport, "SCAN_SECONDS", 0.05)
    made = []

    async def make() -> tuple[UnixTransport, list[dict]]:
        heard: list[dict] = []
        made.append(UnixTransport(tmp_path / "bus", receive=heard.append))
        await made[-1].start()
        return made[-1], heard

    yield make
    for transport in made:
        await transport.stop()


async def left_behind(path, *, seconds_ago: float):
    """A socket in whose place nobody listens."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    server = await asyncio.start_unix_server(lambda r, w: None, path)
    server.close()
    then = time.time() - seconds_ago
    os.utime(path, (then, then))
    return path


async def test_processes_reconnect_after_broken_connections(processes, eventually):
    (first, first_heard), (second, second_heard) = await processes(), await processes()
    await eventually(lambda: first._listeners and second._listeners)
    broken = {*first._listeners, *second._listeners}
    for writer in broken:
        writer.transport.abort()
    await eventually(lambda: not broken & {*first._listeners, *second._listeners})

    def both_hear() -> bool:
        first.send(orjson.dumps({"k": "of the first"}))
        second.send(orjson.dumps({"k": "of the second"}))
        return {"k": "of the second"} in first_heard and {"k": "of the first"} in second_heard

    await eventually(both_hear)
    assert (len(first._listeners), len(second._listeners)) == (1, 1)


async def test_late_process_is_dialed_once_it_listens(processes, tmp_path, eventually):
    late = await left_behind(tmp_path / "bus" / "late.sock", seconds_ago=-3600)
    transport, _ = await processes()
    await eventually(lambda: not transport._dialed)  # refused
    dialled = asyncio.Event()
    late.unlink()
    server = await asyncio.start_unix_server(lambda r, w: (dialled.set(), w.close()), late)
    await asyncio.wait_for(dialled.wait(), 20)
    server.close()


async def test_stale_socket_is_removed_and_new_one_is_kept(processes, tmp_path, eventually):
    dead = await left_behind(tmp_path / "bus" / "dead.sock", seconds_ago=3600)
    young = await left_behind(tmp_path / "bus" / "young.sock", seconds_ago=-3600)  # young for as long as the test takes
    transport, _ = await processes()
    await eventually(lambda: not dead.exists())
    await eventually(lambda: not transport._dialed)
    assert young.exists()
    os.utime(young, (0, 0))
    await eventually(lambda: not young.exists())


async def test_bus_works_in_very_long_state_directory(tmp_path):
    transport = UnixTransport(tmp_path / ("d" * 120) / "bus", receive=print)
    await transport.start()
    await transport.stop()
