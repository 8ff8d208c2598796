"""The file with the gateway's address in a state directory: written by `serve` and `web`, read by client commands.

Imports nothing large, because `serve` uses it. A file left behind by a dead process is harmless: connecting fails.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

ADDRESS_FILE = "address"
LOOPBACK_FOR = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  # nothing is bound; all addresses include loopback


def socket_url(host: str, port: int | str) -> str:
    """Return the gateway's WebSocket URL for programs on this host."""
    host = LOOPBACK_FOR.get(host, host)
    return f"ws://{f'[{host}]' if ':' in host else host}:{port}/ws"


def read_address(home: Path) -> str | None:
    """Return the address in a state directory's file, if it can be read."""
    try:
        return (home / ADDRESS_FILE).read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


@contextlib.contextmanager
def publish_address(home: Path, listener: socket.socket, *, give_way: bool = False) -> Iterator[None]:
    """Write the address file while the block runs. With `give_way`, don't replace the file of another listening process."""
    if listener.family not in (socket.AF_INET, socket.AF_INET6):
        yield
        return
    mine, before = socket_url(*listener.getsockname()[:2]), read_address(home)
    if give_way and before and before != mine and _is_open(before):
        yield
        return
    draft = home / f"{ADDRESS_FILE}.{os.getpid()}"
    draft.write_text(f"{mine}\n")
    draft.replace(home / ADDRESS_FILE)
    try:
        yield
    finally:
        if read_address(home) == mine:
            (home / ADDRESS_FILE).unlink(missing_ok=True)


def _is_open(address: str) -> bool:
    try:
        parts = urlsplit(address)
        with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=1):
            return True
    except (OSError, ValueError):
        return False
