"""An answer's bytes up to a cap. Needs no network."""

import zlib


class BadBody(Exception):
    """The bytes are not what the header says."""


class ResponseBody:
    """The cap holds before and after decompression: neither a bomb nor an endless stream that unpacks to nothing passes."""

    def __init__(self, encoding: str, max_bytes: int) -> None:
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            raise BadBody(f"it is compressed with {encoding[:40]!r}, which was not asked for")
        self._unzip = zlib.decompressobj(wbits=31) if "gzip" in encoding else None
        self._max, self._received, self._kept = max_bytes, 0, bytearray()
        self.truncated = False

    def feed_until_full(self, chunk: bytes) -> bool:
        """Take in the next chunk; says whether there is no need to read on."""
        self._received += len(chunk)
        room = self._max - len(self._kept) + 1  # one byte more tells a full body from one that goes on
        try:
            self._kept += self._unzip.decompress(chunk, room) if self._unzip else chunk[:room]
        except zlib.error:
            raise BadBody("its compressed data is broken") from None
        self.truncated = len(self._kept) > self._max or self._received > self._max
        return self.truncated

    def finish(self) -> bytes:
        if self._unzip and self._received and not self.truncated and not self._unzip.eof:
            raise BadBody("its compressed data breaks off")
        return bytes(self._kept[: self._max])
