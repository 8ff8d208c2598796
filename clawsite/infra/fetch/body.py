"""Read a response body up to a limit. Needs no network."""

import zlib


class BadBody(Exception):
    """The bytes don't match the header."""


class ResponseBody:
    """Limits the size before and after decompression, against zip bombs and endless streams that unpack to nothing."""

    def __init__(self, encoding: str, max_bytes: int) -> None:
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip"):
            raise BadBody(f"it is compressed with {encoding[:40]!r}, which was not requested")
        self._unzip = zlib.decompressobj(wbits=31) if "gzip" in encoding else None
        self._max, self._received, self._kept = max_bytes, 0, bytearray()
        self.truncated = False

    def feed_until_full(self, chunk: bytes) -> bool:
        """Add the next chunk; return whether reading can stop."""
        self._received += len(chunk)
        room = self._max - len(self._kept) + 1  # one extra byte distinguishes a full body from a truncated one
        try:
            self._kept += self._unzip.decompress(chunk, room) if self._unzip else chunk[:room]
        except zlib.error:
            raise BadBody("its compressed data is corrupt") from None
        self.truncated = len(self._kept) > self._max or self._received > self._max
        return self.truncated

    def finish(self) -> bytes:
        if self._unzip and self._received and not self.truncated and not self._unzip.eof:
            raise BadBody("its compressed data is incomplete")
        return bytes(self._kept[: self._max])
