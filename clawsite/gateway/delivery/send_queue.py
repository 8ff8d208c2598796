"""What leaves on one socket: a bounded queue and the one writer that empties it.

It knows nothing of WebSockets: it is given two functions, one that sends a text frame and one that closes. A client that
does not read costs its queue and nothing else; nobody waits for it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.errors import CloseCode
from clawsite.gateway.protocol.frames import EncodedEvent

log = logging.getLogger(__name__)

Send = Callable[[str], Awaitable[None]]
SendClose = Callable[[int, str], Awaitable[None]]

MAX_CLOSE_REASON_BYTES = 123  # bytes of a close frame's reason


class SendQueue:
    """What waits to be written, in order, with its size.

    An event waits as what all connections share, and gets its number when it is written: told to a thousand sockets at once, a
    long one such as the list of who is online would otherwise be a thousand long texts at once.
    """

    def __init__(self, most_bytes: int = limits.MAX_BUFFERED_BYTES, most_frames: int = limits.MAX_BUFFERED_FRAMES) -> None:
        self.most_bytes, self.most_frames = most_bytes, most_frames
        self.bytes = 0
        self._frames: deque[tuple[str | EncodedEvent, int, int]] = deque()  # text or event, its number, its size

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, text: str, size: int) -> None:
        self._frames.append((text, 0, size))
        self.bytes += size

    def put_event(self, event: EncodedEvent, number: int) -> None:
        self._frames.append((event, number, event.size))
        self.bytes += event.size

    def pop(self) -> tuple[str, int]:
        """The next frame. It counts until `written`: the socket may take its time."""
        frame, number, size = self._frames.popleft()
        return (frame if isinstance(frame, str) else frame.with_seq(number)), size

    def written(self, size: int) -> None:
        self.bytes -= size

    def clear(self) -> None:
        self._frames.clear()

    @property
    def is_full(self) -> bool:
        """Nothing more may wait. The frame that crosses the line is still taken: a large one would never fit otherwise."""
        return self.bytes >= self.most_bytes or len(self._frames) >= self.most_frames

    def is_nearly_full(self, size: int) -> bool:
        """No room for what may be dropped: it has the first half of the queue."""
        return (self.bytes + size) * 2 > self.most_bytes or len(self._frames) * 2 > self.most_frames


class SocketWriter:
    """`deliver` is called for every event of every run a client follows, so it does little."""

    def __init__(self, *, id: str, send: Send, send_close: SendClose, on_close: Callable[[], None] = lambda: None) -> None:
        self.id = id
        self.seq = 0  # of the last event queued
        self.closing = False
        self.ended = asyncio.Event()  # the writer has ended: nothing more will leave
        self._send, self._send_close, self._on_close = send, send_close, on_close
        self._queue = SendQueue()
        self._close_frame: tuple[int, str] | None = None
        self._has_frames = asyncio.Event()  # set while the writer has work
        self._has_room = asyncio.Event()

    def deliver(self, event: EncodedEvent, *, droppable: bool = False) -> None:
        """Number an event and queue it. A client that reads too slowly first loses what may be lost, then its connection."""
        if self.closing or (droppable and self._queue.is_nearly_full(event.size)):
            return
        if self._queue.is_full:
            self._overflow()
            return
        self.seq += 1
        self._queue.put_event(event, self.seq)
        self._has_frames.set()

    async def reply(self, text: str) -> None:
        """Queue an answer; the request waits for room, since only its own client is kept waiting by that."""
        await self.room()
        self.reply_now(text)

    def reply_now(self, text: str) -> None:
        """Queue an answer to a request that was refused at the door: a flood of those must not pile up tasks."""
        if self.closing:
            return
        if self._queue.is_full:
            self._overflow()
            return
        self._queue.put(text, len(text) if text.isascii() else len(text.encode()))
        self._has_frames.set()

    async def room(self) -> None:
        while not self.closing and self._queue.is_full:
            self._has_room.clear()
            await self._has_room.wait()

    def close(self, code: int, reason: str) -> None:
        """Send what is queued, then close. The first reason counts."""
        if self.closing:
            return
        self.closing = True
        self._close_frame = (code, reason.encode()[:MAX_CLOSE_REASON_BYTES].decode(errors="ignore"))
        self._has_frames.set()
        self._has_room.set()
        self._on_close()

    def gone(self) -> None:
        """The client has left: nothing can be sent any more."""
        self.closing = True
        self._queue.clear()
        self._has_frames.set()
        self._has_room.set()

    async def write(self) -> None:
        """Write until closed. One task per connection runs this, and it alone sends."""
        try:
            await self._write()
        finally:
            self.ended.set()

    async def _write(self) -> None:
        while True:
            while self._queue:
                await self._write_one()
            if self.closing:
                break
            self._has_frames.clear()
            await self._has_frames.wait()
        if self._close_frame:
            await self._send_close(*self._close_frame)

    async def _write_one(self) -> None:
        """A call of its own, so that an idle connection holds no text: with the last one, such as the list of who is online, each
        held 80 KB."""
        text, size = self._queue.pop()
        await self._send(text)
        self._queue.written(size)
        if not self._has_room.is_set():
            self._has_room.set()

    def _overflow(self) -> None:
        log.info("a client reads too slowly and is disconnected", extra={"connection": self.id, "seq": self.seq})
        self._queue.clear()
        self.close(CloseCode.POLICY, f"slow consumer, last seq {self.seq}")
