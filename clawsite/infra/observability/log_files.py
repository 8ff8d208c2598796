"""The log as files: one for each day (UTC) in the state directory, to which every process of the host appends. Needs no Django.

They hold the lines of stderr, redacted like these. What each process says stays whole: a line is one write. A day's file is
never cut or renamed, so that a byte offset in it stays true; old days are deleted, and a day that grows too large goes on on
stderr only.
"""

import logging
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

RETENTION_DAYS = 7
MAX_DAY_BYTES = 64 << 20  # bytes: some 400,000 lines
FILE_NAME_PATTERN = re.compile(r"clawsite-(\d{4}-\d\d-\d\d)\.log")
LINE_PATTERN = re.compile(rb"[^\n]*\n|[^\n]+")


class DailyFileHandler(logging.Handler):
    def __init__(self, directory: Path, *, largest: int = MAX_DAY_BYTES) -> None:
        super().__init__()
        self._directory, self._largest = directory, largest
        self._day = ""
        self._file: int | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = (self.format(record) + "\n").encode(errors="backslashreplace")
            day = datetime.fromtimestamp(record.created, UTC).date().isoformat()
            if day > self._day:
                self._open(day)
            if self._file is not None and os.fstat(self._file).st_size + len(line) <= self._largest:
                os.write(self._file, line)
        except OSError:  # no space, no permission: the line is on stderr, and nobody can be told here
            return

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
        super().close()

    def _open(self, day: str) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        opened = os.open(self._directory / f"clawsite-{day}.log", flags, 0o600)
        if self._file is not None:
            os.close(self._file)
        self._file, self._day = opened, day
        oldest = (datetime.fromisoformat(day) - timedelta(days=RETENTION_DAYS - 1)).date().isoformat()
        for path in self._directory.iterdir():
            if (found := FILE_NAME_PATTERN.fullmatch(path.name)) and found[1] < oldest:
                path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Whole lines of a day's file, and where they end. `reset`: they do not continue what was read before."""

    file: Path
    cursor: int
    size: int
    lines: list[str]
    truncated: bool = False  # there is more: behind the cursor, or before what was asked for without one
    reset: bool = False
    skipped: int = 0  # bytes of the file before the first line


def find_newest_file(directory: Path) -> Path | None:
    """The file of the last day on which something was said."""
    try:
        names = sorted(path.name for path in directory.iterdir() if FILE_NAME_PATTERN.fullmatch(path.name))
    except FileNotFoundError:
        return None
    return directory / names[-1] if names else None


def read_chunk(file: Path, *, cursor: int | None, name: str | None, most_lines: int, most_bytes: int) -> LogChunk:
    """The lines after an offset in the file of that name, or the last ones. An offset in another file starts this one anew."""
    opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(opened).st_size
        reset = cursor is not None and (cursor > size or name not in (None, file.name))
        start = max(0, size - most_bytes) if cursor is None else 0 if reset else cursor
        content = os.pread(opened, most_bytes, start)
    finally:
        os.close(opened)
    lines = LINE_PATTERN.findall(content)
    if lines and not lines[-1].endswith(b"\n") and (len(lines) > 1 or start + len(content) == size):
        lines.pop()  # it is still being written, or reaches past what was asked for; a longer one comes in pieces
    if cursor is None:
        end = start + sum(map(len, lines))
        taken = lines[1:][-most_lines:] if start else lines[-most_lines:]  # it may begin within a line
        skipped = end - sum(map(len, taken))
        return LogChunk(file, end, size, _decode_lines(taken), truncated=skipped > 0, skipped=skipped)
    taken = lines[:most_lines]
    end = start + sum(map(len, taken))
    return LogChunk(
        file,
        end,
        size,
        _decode_lines(taken),
        truncated=end < start + sum(map(len, lines)) or start + len(content) < size,
        reset=reset,
    )


def _decode_lines(lines: list[bytes]) -> list[str]:
    return [line.decode(errors="replace").removesuffix("\n") for line in lines]
