"""The send queue of one client: order, numbers, limits, and a client that does not read."""

import asyncio
import gc
import json
import weakref

from clawsite.gateway.delivery.send_queue import SocketWriter
from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.frames import encode_event


class Socket:
    """Accepts frames while the gate is open, like a client that reads or doesn't."""

    def __init__(self, *, reads: bool = True) -> None:
        self.sent: list[str] = []
        self.closed: tuple[int, str] | None = None
        self.reads = asyncio.Event()
        if reads:
            self.reads.set()

    async def send(self, text: str) -> None:
        await self.reads.wait()
        self.sent.append(text)

    async def close(self, code: int, reason: str) -> None:
        await self.reads.wait()
        self.closed = (code, reason)

    def line(self) -> SocketWriter:
        line = SocketWriter(id="c", send=self.send, send_close=self.close)
        self.writer = asyncio.create_task(line.write())
        return line

    @property
    def seqs(self) -> list[int]:
        return [json.loads(text)["seq"] for text in self.sent if '"seq"' in text]


def event(size: int = 10, name: str = "agent"):
    return encode_event(name, {"text": "x" * size})


async def until_written(line: SocketWriter) -> None:
    line.close(1000, "done")
    await line.ended.wait()


async def test_events_are_sent_in_order_without_seq_gaps():
    socket = Socket()
    line = socket.line()
    for _ in range(50):
        line.deliver(event())
    await line.reply('{"type":"res"}')
    await until_written(line)
    assert socket.seqs == list(range(1, 51))
    assert socket.sent[-1] == '{"type":"res"}'
    assert socket.closed == (1000, "done")


async def test_client_that_does_not_read_is_disconnected():
    socket = Socket(reads=False)
    line = socket.line()
    delivered = 0
    while not line.closing:
        line.deliver(event(10_000))
        delivered += 1
    assert delivered * 10_000 < limits.MAX_BUFFERED_BYTES + 20_000
    socket.reads.set()
    await line.ended.wait()
    assert socket.closed == (1008, f"slow consumer, last seq {delivered - 1}")


async def test_number_of_buffered_frames_is_limited():
    socket = Socket(reads=False)
    line = socket.line()
    for _ in range(limits.MAX_BUFFERED_FRAMES + 2):
        line.deliver(event(1))
    assert line.closing


async def test_droppable_events_are_dropped_first_without_seq_gaps():
    socket = Socket(reads=False)
    line = socket.line()
    while line.seq * 10_000 < limits.MAX_BUFFERED_BYTES * 0.5:
        line.deliver(event(10_000))
    last = line.seq
    line.deliver(event(10_000, "tick"), droppable=True)
    assert line.seq == last
    line.deliver(event(10))
    socket.reads.set()
    await until_written(line)
    assert socket.seqs == list(range(1, last + 2))
    assert not any('"tick"' in text for text in socket.sent)


async def test_frame_larger_than_the_queue_is_sent():
    socket = Socket()
    line = socket.line()
    line.deliver(event(1000))
    line.deliver(event(limits.MAX_BUFFERED_BYTES + 10))
    await until_written(line)
    assert socket.seqs == [1, 2]


async def test_large_droppable_event_never_closes_the_connection():
    socket = Socket()
    line = socket.line()
    line.deliver(event(1000))
    line.deliver(event(limits.MAX_BUFFERED_BYTES * 3, "chat"), droppable=True)
    await until_written(line)
    assert socket.seqs == [1]
    assert socket.closed == (1000, "done")


async def test_reply_waits_for_queue_space_instead_of_closing():
    socket = Socket(reads=False)
    line = socket.line()
    line.deliver(event(limits.MAX_BUFFERED_BYTES))
    reply = asyncio.create_task(line.reply("y" * 1000))
    await asyncio.sleep(0)
    assert not reply.done()
    assert not line.closing
    socket.reads.set()
    await reply
    await until_written(line)
    assert len(socket.sent) == 2


async def test_waiting_reply_is_released_when_the_client_disconnects():
    socket = Socket(reads=False)
    line = socket.line()
    line.deliver(event(limits.MAX_BUFFERED_BYTES))
    reply = asyncio.create_task(line.reply("y" * 1000))
    await asyncio.sleep(0)
    line.discard()
    await reply
    socket.writer.cancel()


async def test_slow_client_does_not_delay_another():
    slow, quick = Socket(reads=False), Socket()
    lines = [slow.line(), quick.line()]
    for _ in range(100):
        for line in lines:
            line.deliver(event(1000))
    await until_written(lines[1])
    assert quick.seqs == list(range(1, 101))
    assert slow.sent == []
    slow.writer.cancel()


async def test_close_reason_is_truncated_to_fit_its_frame():
    socket = Socket()
    line = socket.line()
    line.close(1008, "ü" * 100)
    await line.ended.wait()
    assert len(socket.closed[1].encode()) <= 123


async def test_idle_connection_keeps_no_reference_to_sent_frames():
    """A thousand idle sockets would each keep the last presence list."""

    class Text(str):
        """A str that supports weak references."""

    socket, written = Socket(), asyncio.Event()

    async def send(text: str) -> None:
        written.set()

    socket.send = send
    line = socket.line()
    text = Text("x" * 80_000)
    held = weakref.ref(text)
    line.reply_now(text)
    del text
    await written.wait()
    await asyncio.sleep(0)
    gc.collect()
    assert held() is None
    await until_written(line)
