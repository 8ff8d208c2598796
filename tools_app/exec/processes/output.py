"""Collect a command's output within bounds: keep the beginning and the end, drop and count the middle.

The collector never blocks and its size is bounded: a command that prints gigabytes is read as fast as it writes. To get every
byte, read `RunningProcess.output` directly; with a slow reader the pipe fills up, and the command may block until its timeout.
"""

import codecs
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from tools_app.exec.sandbox.types import OutputChunk, OutputStream

DEFAULT_MAX_BYTES = 100 * 1024  # for both streams together
STDERR_SHARE = 0.25  # stderr's share of the limit if stdout would fill all of it


@dataclass(frozen=True, slots=True)
class CollectedOutput:
    stdout: str
    stderr: str
    truncated: bool
    cut_bytes: int


class OutputCollector:
    """Feed it chunks; read the collected output at any time."""

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
    """The first and the last half of the limit. Holds at most twice the limit."""

    limit: int
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    total: int = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = self.limit - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > 2 * self.limit:  # not on every chunk, because moving it is expensive
            del self.tail[: -self.limit]

    def text(self, limit: int) -> tuple[str, int]:
        """Return what fits, and how many bytes were cut."""
        if self.total <= limit:
            return bytes(self.head + self.tail).decode(errors="replace"), 0
        begin = _trim_partial_characters(bytes(self.head[: limit // 2]), at_end=True)
        end = _trim_partial_characters(bytes((self.head + self.tail)[-(limit - limit // 2) :]) if limit > 1 else b"", at_end=False)
        cut = self.total - len(begin) - len(end)
        mark = _("[… %(count)d bytes cut …]") % {"count": cut}
        return f"{begin.decode(errors='replace')}\n{mark}\n{end.decode(errors='replace')}", cut


def _trim_partial_characters(data: bytes, *, at_end: bool) -> bytes:
    """Drop the partial character at the cut. A character has at most four bytes."""
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
    """Decode output while it arrives; a character split between two chunks is emitted with the second."""

    def __init__(self) -> None:
        make = codecs.getincrementaldecoder("utf-8")
        self._decoders: dict[OutputStream, codecs.IncrementalDecoder] = {"stdout": make("replace"), "stderr": make("replace")}

    def feed(self, chunk: OutputChunk) -> str:
        return self._decoders[chunk.stream].decode(chunk.data)

    def flush(self, stream: OutputStream) -> str:
        return self._decoders[stream].decode(b"", final=True)


MAX_PENDING_CHARACTERS = 128 * 1024  # characters not yet taken; also the maximum length of a piece
TAIL_CHARACTERS = 8 * 1024  # last characters, always available


class OutputBuffer:
    """Both streams as they arrive. `end` counts every character, including dropped ones."""

    def __init__(self) -> None:
        self.end = 0
        self.tail = ""
        self._text = StreamDecoder()
        self._waiting = ""

    def feed(self, chunk: OutputChunk) -> None:
        self._add(self._text.feed(chunk))

    def finish(self) -> None:
        """Flush incomplete characters."""
        self._add(self._text.flush("stdout") + self._text.flush("stderr"))

    def take_pending(self) -> list[tuple[int, str]]:
        """Return output since the last call with its offset; at most the last MAX_PENDING_CHARACTERS."""
        taken, self._waiting = self._waiting, ""
        return [(self.end - len(taken), taken)] if taken else []

    def _add(self, text: str) -> None:
        text = text.replace("\0", "\ufffd")  # databases can't store NUL
        self.end += len(text)
        self._waiting = (self._waiting + text)[-MAX_PENDING_CHARACTERS:]
        self.tail = (self.tail + text)[-TAIL_CHARACTERS:]
