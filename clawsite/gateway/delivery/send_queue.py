"""The outgoing side of one socket: a bounded queue and the one writer that empties it.

It is independent of WebSockets: it gets two functions, one that sends a text frame and one that closes. A client that doesn't
read only fills its own queue; no other client has to wait for it.
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
    """Frames to be written, in order, with their sizes.

    An event is queued in a form that all connections share and gets its number when it is written: otherwise a long event sent
    to a thousand sockets, such as the presence list, would be held a thousand times.
    """

    def __init__(self, max_bytes: int = limits.MAX_BUFFERED_BYTES, max_frames: int = limits.MAX_BUFFERED_FRAMES) -> None:
        self.max_bytes, self.max_frames = max_bytes, max_frames
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
        """Return the next frame. It counts toward the limit until `written` is called, because the socket may be slow."""
        frame, number, size = self._frames.popleft()
        return (frame if isinstance(frame, str) else frame.with_seq(number)), size

    def written(self, size: int) -> None:
        self.bytes -= size

    def clear(self) -> None:
        self._frames.clear()

    @property
    def is_full(self) -> bool:
        """Whether the queue is full. The frame that exceeds the limit is still accepted; otherwise a large one would never fit."""
        return self.bytes >= self.max_bytes or len(self._frames) >= self.max_frames

    def is_nearly_full(self, size: int) -> bool:
        """Whether there is no room for a droppable frame: these may only use the first half of the queue."""
        return (self.bytes + size) * 2 > self.max_bytes or len(self._frames) * 2 > self.max_frames


class SocketWriter:
    """Queues and writes frames. `deliver` must be cheap: it is called for every event of every run a client follows."""

    def __init__(self, *, id: str, send: Send, send_close: SendClose, on_close: Callable[[], None] = lambda: None) -> None:
        self.id = id
        self.seq = 0  # of the last event queued
        self.closing = False
        self.ended = asyncio.Event()  # the writer has ended; nothing more will be sent
        self._send, self._send_close, self._on_close = send, send_close, on_close
        self._queue = SendQueue()
        self._close_frame: tuple[int, str] | None = None
        self._has_frames = asyncio.Event()  # set while the writer has work
        self._has_room = asyncio.Event()

    def deliver(self, event: EncodedEvent, *, droppable: bool = False) -> None:
        """Number and queue an event. A client that reads too slowly first loses droppable events, then its connection."""
        if self.closing or (droppable and self._queue.is_nearly_full(event.size)):
            return
        if self._queue.is_full:
            self._overflow()
            return
        self.seq += 1
        self._queue.put_event(event, self.seq)
        self._has_frames.set()

    async def reply(self, text: str) -> None:
        """Queue a response once there is room. Only the client it is for has to wait."""
        await self.wait_for_room()
        self.reply_now(text)

    def reply_now(self, text: str) -> None:
        """Queue a response without waiting, for requests rejected early: a flood of them must not create tasks."""
        if self.closing:
            return
        if self._queue.is_full:
            self._overflow()
            return
        self._queue.put(text, len(text) if text.isascii() else len(text.encode()))
        self._has_frames.set()

    async def wait_for_room(self) -> None:
        while not self.closing and self._queue.is_full:
            self._has_room.clear()
            await self._has_room.wait()

    def close(self, code: int, reason: str) -> None:
        """Send what is queued, then close. Only the first call counts."""
        if self.closing:
            return
        self.closing = True
        self._close_frame = (code, reason.encode()[:MAX_CLOSE_REASON_BYTES].decode(errors="ignore"))
        self._has_frames.set()
        self._has_room.set()
        self._on_close()

    def discard(self) -> None:
        """Discard the queue because the client has disconnected."""
        self.closing = True
        self._queue.clear()
        self._has_frames.set()
        self._has_room.set()

    async def write(self) -> None:
        """Write until closed. One task per connection runs this, and only it sends."""
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
        """Write one frame. A separate function, so that an idle connection doesn't hold the last text, such as an 80 KB presence
        list."""
        text, size = self._queue.pop()
        await self._send(text)
        self._queue.written(size)
        if not self._has_room.is_set():
            self._has_room.set()

    def _overflow(self) -> None:
        log.info("disconnecting a client that reads too slowly", extra={"connection": self.id, "seq": self.seq})
        self._queue.clear()
        self.close(CloseCode.POLICY, f"slow consumer, last seq {self.seq}")
