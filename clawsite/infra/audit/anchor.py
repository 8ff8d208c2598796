"""Anchors: the head of the audit chain, noted in a file that whoever owns the database does not own.

Cutting off the end of the chain, or writing all of it anew, leaves no gap in the database. A line of this file that does not fit
any more shows it. One JSON object a line; lines are only ever added.
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
MAX_LINE_LENGTH = 200  # bytes; ours have some 140


@dataclass(frozen=True, slots=True)
class Anchor:
    position: int
    hash: str
    at: str


class BadAnchor(ValueError):
    """A line is not an anchor: the file is damaged or a different one."""


def append_anchor(path: Path, *, only_if_due: bool = False) -> Anchor | None:
    """Add the head of this moment; -> it, or None when the last line says the same, or `only_if_due` and it is not yet.

    Several workers may do so on one file: it is locked, and the last line is what decides.
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
        newest = read_head()
        if not newest.position or (last and (last.position, last.hash) == (newest.position, newest.hash)):
            return None
        made = Anchor(newest.position, newest.hash, now.isoformat(timespec="seconds"))
        line = json.dumps({"position": made.position, "hash": made.hash, "at": made.at}) + "\n"
        file.write((b"" if not tail or tail.endswith(b"\n") else b"\n") + line.encode())
        file.flush()
        os.fsync(file.fileno())
        return made


def read_anchors(path: Path) -> Iterator[Anchor]:
    """Return every anchor of the file, oldest first; raise BadAnchor for an invalid line."""
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
