"""The part of RFC 6455 that a watcher needs: the upgrade request and splitting bytes into frames. No masking, no JSON."""

import base64
import os
import struct
from collections.abc import Iterator
from urllib.parse import urlsplit

TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA
END_OF_HEADERS = b"\r\n\r\n"


def upgrade_request(url: str) -> bytes:
    parts = urlsplit(url)
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        f"GET {parts.path or '/'} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
    ]
    return "\r\n".join(lines).encode() + END_OF_HEADERS


def client_frame(payload: bytes, opcode: int = TEXT) -> bytes:
    """Build a frame to the server. The mask is zero, which leaves the payload unchanged and is valid."""
    size = len(payload)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 1 << 16:
        length = b"\xfe" + struct.pack("!H", size)
    else:
        length = b"\xff" + struct.pack("!Q", size)
    return bytes([0x80 | opcode]) + length + b"\0\0\0\0" + payload


def split_frames(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield opcode, start and end of the payload of every complete frame. Servers send unmasked and, here, unfragmented frames."""
    at, size = 0, len(data)
    while size - at >= 2:
        length, begin = data[at + 1] & 0x7F, at + 2
        if length == 126:
            begin = at + 4
            if size < begin:
                return
            length = int.from_bytes(data[at + 2 : begin], "big")
        elif length == 127:
            begin = at + 10
            if size < begin:
                return
            length = int.from_bytes(data[at + 2 : begin], "big")
        if size < begin + length:
            return
        yield data[at] & 0x0F, begin, begin + length
        at = begin + length
