"""Anchors: a log of the audit chain's head in a file that the database owner should not be able to change.

Truncating or rewriting the whole chain leaves no gap in the database, but then a line of this file no longer matches.
The file has one JSON object per line and is append-only.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from clawsite.infra import clock
from clawsite.infra.audit.chain import read_head

ANCHOR_INTERVAL = timedelta(minutes=10)
MAX_LINE_LENGTH = 200  # bytes; a typical line has about 140


@dataclass(frozen=True, slots=True)
class Anchor:
    position: int
    hash: str
    at: str


class BadAnchor(ValueError):
    """A line is not an anchor: the file is damaged or not an anchor file."""


def append_anchor(path: Path, *, only_if_due: bool = False) -> Anchor | None:
    """Append the current head and return it, or None if it equals the last line or is not due yet (`only_if_due`).

    Several workers can share one file: it is locked, and its last line shows whether a new anchor is due.
    """
    with os.fdopen(os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 2 * MAX_LINE_LENGTH))
        tail = file.read()
        lines = tail.splitlines()
        last = _parse(lines[-1]) if lines else None
        now = clock.now()
        if last and only_if_due and now - datetime.fromisoformat(last.at) < ANCHOR_INTERVAL:
            return None
        head = read_head()
        if not head.position or (last and (last.position, last.hash) == (head.position, head.hash)):
            return None
        anchor = Anchor(head.position, head.hash, now.isoformat(timespec="seconds"))
        line = json.dumps({"position": anchor.position, "hash": anchor.hash, "at": anchor.at}) + "\n"
        file.write((b"" if not tail or tail.endswith(b"\n") else b"\n") + line.encode())
        file.flush()
        os.fsync(file.fileno())
        return anchor


def read_anchors(path: Path) -> Iterator[Anchor]:
    """Yield every anchor of the file, oldest first; raise BadAnchor for an invalid line."""
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(10_000), b""), 1):
            if not line.strip():
                continue
            anchor = _parse(line)
            if anchor is None:
                raise BadAnchor(f"line {number} of {path} is not a valid anchor")
            yield anchor


def _parse(line: bytes) -> Anchor | None:
    try:
        data = json.loads(line)
        datetime.fromisoformat(data["at"])
        return Anchor(int(data["position"]), str(data["hash"]), str(data["at"]))
    except (ValueError, TypeError, KeyError):
        return None
