"""One socket after its handshake: who it is, what it follows, and a bounded queue of what it has yet to read.

It knows nothing of WebSockets: it is given two functions, one that sends a text frame and one that closes. A client that
does not read costs its queue and nothing else; nobody waits for it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from clawsite.gateway import limits
from clawsite.gateway.authority import Authority
from clawsite.gateway.errors import Close
from clawsite.gateway.frames import Client, Encoded, dialect_of
from clawsite.gateway.wire import Outgoing

log = logging.getLogger(__name__)

Send = Callable[[str], Awaitable[None]]
SendClose = Callable[[int, str], Awaitable[None]]

LONGEST_REASON = 123  # bytes of a close frame's reason


class SendQueue:
    """What waits to be written, in order, with its size."""

    def __init__(self, most_bytes: int = limits.BUFFERED_BYTES, most_frames: int = limits.BUFFERED_FRAMES) -> None:
        self.most_bytes, self.most_frames = most_bytes, most_frames
        self.bytes = 0
        self._frames: deque[tuple[str, int]] = deque()

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, text: str, size: int) -> None:
        self._frames.append((text, size))
        self.bytes += size

    def pop(self) -> tuple[str, int]:
        """The next frame. It counts until `written`: the socket may take its time."""
        return self._frames.popleft()

    def written(self, size: int) -> None:
        self.bytes -= size

    def clear(self) -> None:
        self._frames.clear()

    def fits(self, size: int) -> bool:
        """A single frame larger than the whole queue fits an empty one: it would never fit otherwise."""
        return len(self._frames) < self.most_frames and (self.bytes == 0 or self.bytes + size <= self.most_bytes)

    @property
    def half_full(self) -> bool:
        return self.bytes * 2 > self.most_bytes or len(self._frames) * 2 > self.most_frames


class Connection:
    """State of one client. `deliver` is called for every event of every run it follows, so it does little."""

    def __init__(self, *, id: str, send: Send, send_close: SendClose, on_close: Callable[[], None] = lambda: None) -> None:
        self.id = id
        self._on_close = on_close
        self.dialect = dialect_of(4)
        self.protocol = 4
        self.client: Client | None = None
        self.authority: Authority | None = None
        self.caps: frozenset[str] = frozenset()
        self.connected_ms = 0
        self.followed: set[str] = set()  # ids of sessions it has subscribed to
        self.followed_keys: set[str] = set()  # the same for own sessions that may not exist yet
        self.scoped = False  # wants only the events of those
        self.held: set[str] = set()  # sessions whose missed events are being sent: live ones wait in the rows
        self.floors: dict[str, int] = {}  # session -> cursor up to which the client has been sent everything from rows
        self.seq = 0
        self.closing = False
        self._queue = SendQueue()
        self._send, self._send_close = send, send_close
        self._farewell: tuple[int, str] | None = None
        self._something = asyncio.Event()  # set while the writer has work
        self._room = asyncio.Event()
        self.written = asyncio.Event()  # the writer has ended: nothing more will leave

    @property
    def user_pk(self) -> int:
        assert self.authority is not None
        return self.authority.user.pk

    @property
    def may_read(self) -> bool:
        return self.authority is not None and self.authority.may_read

    @property
    def sees_all(self) -> bool:
        return self.authority is not None and self.authority.sees_all

    def wants(self, outgoing: Outgoing) -> bool:
        """Protocol 1 has no capabilities to declare: it is told everything."""
        return not outgoing.needs or self.dialect == "classic" or outgoing.needs in self.caps

    def take(self, outgoing: Outgoing) -> None:
        if self.wants(outgoing):
            encoded = outgoing.encoded(self.dialect)
            if encoded is not None:
                self.deliver(encoded, droppable=outgoing.droppable)

    def deliver(self, event: Encoded, *, droppable: bool = False) -> None:
        """Number an event and queue it. A client that reads too slowly first loses what may be lost, then its connection."""
        if self.closing:
            return
        if droppable and self._queue.half_full:
            return
        if not self._queue.fits(event.size):
            self.overflow()
            return
        self.seq += 1
        self._queue.put(event.numbered(self.seq), event.size)
        self._something.set()

    def is_past(self, session_id: str, cursor: int) -> bool:
        """Whether catching up from rows has already brought the client past this event."""
        floor = self.floors.get(session_id)
        if floor is None:
            return False
        if cursor <= floor:
            return True
        del self.floors[session_id]
        return False

    async def reply(self, text: str) -> None:
        """Queue an answer; the request waits for room, since only its own client is kept waiting by that."""
        await self.room_for(_size(text))
        self.reply_now(text)

    def reply_now(self, text: str) -> None:
        """Queue an answer to a request that was refused at the door: a flood of those must not pile up tasks."""
        if self.closing:
            return
        size = _size(text)
        if not self._queue.fits(size):
            self.overflow()
            return
        self._queue.put(text, size)
        self._something.set()

    async def room_for(self, size: int) -> None:
        while not self.closing and not self._queue.fits(size):
            self._room.clear()
            await self._room.wait()

    def overflow(self) -> None:
        log.info("a client reads too slowly", extra={"connection": self.id, "seq": self.seq})
        self._queue.clear()
        self.close(Close.POLICY, f"slow consumer, last seq {self.seq}")

    def close(self, code: int, reason: str) -> None:
        """Send what is queued, then close. The first reason counts."""
        if self.closing:
            return
        self.closing = True
        self._farewell = (code, reason.encode()[:LONGEST_REASON].decode(errors="ignore"))
        self._something.set()
        self._room.set()
        self._on_close()

    def gone(self) -> None:
        """The client has left: nothing can be sent any more."""
        self.closing = True
        self._queue.clear()
        self._something.set()
        self._room.set()

    async def write(self) -> None:
        """Write until closed. One task per connection runs this, and it alone sends."""
        try:
            await self._write()
        finally:
            self.written.set()

    async def _write(self) -> None:
        while True:
            while self._queue:
                text, size = self._queue.pop()
                await self._send(text)
                self._queue.written(size)
                if not self._room.is_set():
                    self._room.set()
            if self.closing:
                break
            self._something.clear()
            await self._something.wait()
        if self._farewell:
            await self._send_close(*self._farewell)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
