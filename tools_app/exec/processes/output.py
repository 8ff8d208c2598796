"""What a command printed, within bounds: the beginning and the end are kept, the middle is dropped and counted.

The collector never waits and never grows: a command that prints gigabytes is read as fast as it writes. Whoever needs every
byte reads `Running.output` alone, slowly if it likes: then the pipe is full and the command waits, until its time-out.
"""

import codecs
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from tools_app.exec.sandbox.types import OutputChunk, OutputStream

DEFAULT_MAX_BYTES = 100 * 1024  # bytes of both streams together
STDERR_SHARE = 0.25  # of the limit, where stdout wants all of it


@dataclass(frozen=True, slots=True)
class CollectedOutput:
    stdout: str
    stderr: str
    truncated: bool
    cut_bytes: int


class OutputCollector:
    """Feed it chunks; ask any time for what there is."""

    def __init__(self, limit: int = DEFAULT_MAX_BYTES) -> None:
        self._limit = limit
        self._streams: dict[OutputStream, _HeadAndTail] = {"stdout": _HeadAndTail(limit), "stderr": _HeadAndTail(limit)}

    def feed(self, chunk: OutputChunk) -> None:
        self._streams[chunk.stream].feed(chunk.data)

    def collected(self) -> CollectedOutput:
        stdout, stderr = self._streams["stdout"], self._streams["stderr"]
        for_stderr = min(stderr.total, max(int(self._limit * STDERR_SHARE), self._limit - stdout.total))
        out, cut_out = stdout.text(self._limit - for_stderr)
        err, cut_err = stderr.text(for_stderr)
        return CollectedOutput(out, err, truncated=bool(cut_out or cut_err), cut_bytes=cut_out + cut_err)


@dataclass
class _HeadAndTail:
    """The first half of the limit and the last half. At most twice the limit is held."""

    limit: int
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    total: int = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = self.limit - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > 2 * self.limit:  # not at every chunk: moving it costs
            del self.tail[: -self.limit]

    def text(self, limit: int) -> tuple[str, int]:
        """All that fits, and how many bytes do not."""
        if self.total <= limit:
            return bytes(self.head + self.tail).decode(errors="replace"), 0
        begin = _trim_partial_characters(bytes(self.head[: limit // 2]), at_end=True)
        end = _trim_partial_characters(bytes((self.head + self.tail)[-(limit - limit // 2) :]) if limit > 1 else b"", at_end=False)
        cut = self.total - len(begin) - len(end)
        mark = _("[… %(count)d bytes cut …]") % {"count": cut}
        return f"{begin.decode(errors='replace')}\n{mark}\n{end.decode(errors='replace')}", cut


def _trim_partial_characters(data: bytes, *, at_end: bool) -> bytes:
    """Without the part of a character at the side where it was cut. A character has at most four bytes."""
    if at_end:
        for back in range(1, min(4, len(data)) + 1):
            lead = data[-back]
            if lead & 0xC0 != 0x80:
                length = 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
                return data[:-back] if length > back else data
        return data
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


class StreamDecoder:
    """The same as text while it comes; a character that is split between two chunks is shown whole, with the second."""

    def __init__(self) -> None:
        make = codecs.getincrementaldecoder("utf-8")
        self._decoders: dict[OutputStream, codecs.IncrementalDecoder] = {"stdout": make("replace"), "stderr": make("replace")}

    def feed(self, chunk: OutputChunk) -> str:
        return self._decoders[chunk.stream].decode(chunk.data)

    def flush(self, stream: OutputStream) -> str:
        return self._decoders[stream].decode(b"", final=True)


MAX_PENDING_CHARACTERS = 128 * 1024  # characters that wait to be taken, and so the longest piece
TAIL_CHARACTERS = 8 * 1024  # characters of the end, always at hand


class OutputBuffer:
    """Both streams as they come. `end` counts every character, also of what was dropped for want of a taker."""

    def __init__(self) -> None:
        self.end = 0
        self.tail = ""
        self._text = StreamDecoder()
        self._waiting = ""

    def feed(self, chunk: OutputChunk) -> None:
        self._add(self._text.feed(chunk))

    def finish(self) -> None:
        """Whatever is left of a character that was never completed."""
        self._add(self._text.flush("stdout") + self._text.flush("stderr"))

    def take(self) -> list[tuple[int, str]]:
        """What was printed since the last time, with its place; of much, the last WAITING characters."""
        taken, self._waiting = self._waiting, ""
        return [(self.end - len(taken), taken)] if taken else []

    def _add(self, text: str) -> None:
        text = text.replace("\0", "\ufffd")  # no database stores it
        self.end += len(text)
        self._waiting = (self._waiting + text)[-MAX_PENDING_CHARACTERS:]
        self.tail = (self.tail + text)[-TAIL_CHARACTERS:]
