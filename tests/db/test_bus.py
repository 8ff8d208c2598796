"""The bus of this profile: Unix sockets or Redis. Two transports stand in for two processes."""

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

import orjson
import pytest
from django.conf import settings

from clawsite.infra import bus
from clawsite.infra.bus import BusMessage, messages, unix_transport
from clawsite.infra.bus.messages import registered_kinds
from clawsite.infra.bus.unix_transport import UnixTransport

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


@dataclass(frozen=True)
class Note(BusMessage, kind="note of a test"):
    text: str
    author: str = "anonymous"
    pages: list[int] | None = None


@pytest.fixture
def notes() -> Iterator[list[Note]]:
    received: list[Note] = []
    unsubscribe = bus.subscribe(Note, received.append)
    yield received
    unsubscribe()


async def test_message_reaches_own_and_other_processes(bus_messages, notes, eventually, monkeypatch):
    lines: list[bytes] = []
    monkeypatch.setattr(bus, "receive", lines.append)
    other = bus._make_transport()
    monkeypatch.undo()
    await other.start()
    try:
        if not settings.REDIS_URL:
            await eventually(lambda: bus._transport._listeners)
        bus.publish(Note("own"))
        await eventually(lambda: Note("own") in notes and lines)
        assert orjson.loads(lines[0]) == {"k": "note of a test", "text": "own", "author": "anonymous", "pages": None}
        other.send(b'{"k": "note of a test", "text": "theirs", "pages": [1]}')
        await eventually(lambda: Note("theirs", pages=[1]) in notes)
        assert notes.count(Note("own")) == 1
    finally:
        await other.stop()


def test_unknown_kinds_and_fields_are_ignored(notes, caplog):
    bus.receive(b'{"k": "of a later version", "text": "x"}')
    bus.receive(b'{"k": "note of a test", "text": "x", "of_a_later_version": {}}')
    assert notes == [Note("x")]
    assert not caplog.records


@pytest.mark.parametrize(
    "line",
    [
        b'{"k": "note of a test", "te',
        b'["note of a test"]',
        b'{"text": "x"}',
        b'{"k": ["note of a test"], "text": "x"}',
        b'{"k": "note of a test", "author": "no text"}',
        b'{"k": "note of a test", "text": null}',
        b'{"k": "note of a test", "text": "x", "pages": {"1": 1}}',
        b"\xff\n",
    ],
)
def test_malformed_message_is_logged_and_dropped(notes, caplog, line):
    bus.receive(line)
    bus.receive(b'{"k": "note of a test", "text": "the next one"}')
    assert notes == [Note("the next one")]
    assert "dropped a malformed bus message" in caplog.text


def test_every_kind_survives_the_wire():
    """Every field of every message kind has a type that JSON can represent and the receiver accepts."""
    samples = {str: "x", int: 1, list: [], dict: {}, type(None): None}
    for kind in registered_kinds():
        fields = {name: samples[types[0]] for name, types, _default in messages._fields_of(kind.kind)}
        message = kind(**fields)
        assert messages.decode(messages.encode(message), [kind]) == message


async def test_message_is_published_only_after_commit(bus_messages, user, make_session, eventually):
    from django.db import transaction

    from sessions_app.events import announce

    with pytest.raises(RuntimeError), transaction.atomic():
        announce.notify_workers(1, "accepted")
        raise RuntimeError
    with transaction.atomic():
        announce.notify_workers(2, "accepted")
    await eventually(lambda: announce.RunChanged(2, "accepted") in bus_messages)
    assert announce.RunChanged(1, "accepted") not in bus_messages


async def test_failing_subscriber_does_not_block_others(bus_messages, eventually):
    unsubscribe = bus.subscribe(Note, lambda note: 1 / 0)
    received: list[Note] = []
    unsubscribe_second = bus.subscribe(Note, received.append)
    bus.publish(Note("delivered anyway"))
    await eventually(lambda: Note("delivered anyway") in received)
    unsubscribe()
    unsubscribe_second()


@pytest.fixture
async def processes(tmp_path, monkeypatch):
    """Create transports that meet in one directory: processes() -> transport and the messages it received. They scan often."""
    monkeypatch.setattr(unix_transport, "SCAN_SECONDS", 0.05)
    made = []

    async def make() -> tuple[UnixTransport, list[bytes]]:
        heard: list[bytes] = []
        made.append(UnixTransport(tmp_path / "bus", receive=heard.append))
        await made[-1].start()
        return made[-1], heard

    yield make
    for transport in made:
        await transport.stop()


async def left_behind(path, *, seconds_ago: float):
    """A socket on which no process listens."""
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
        first.send(b"of the first")
        second.send(b"of the second")
        return b"of the second\n" in first_heard and b"of the first\n" in second_heard

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
    young = await left_behind(tmp_path / "bus" / "young.sock", seconds_ago=-3600)  # stays recent for the duration of the test
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


def test_message_kind_has_one_class():
    with pytest.raises(TypeError, match="already has the message kind 'note of a test'"):
        type("OtherNote", (bus.BusMessage,), {}, kind="note of a test")
    assert messages._classes["note of a test"] is Note
