"""Log files: one per day (UTC) in the state directory, to which every process on the host appends. Needs no Django.

They have the same redacted lines as stderr. Each line is one write, so lines of different processes don't mix. A file is never
truncated or renamed, so that byte offsets stay valid. Old files are deleted; after a file reaches its size limit, the rest of
that day's log goes only to stderr.
"""

import logging
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

RETENTION_DAYS = 7
MAX_DAY_BYTES = 64 << 20  # about 400,000 lines
FILE_NAME_PATTERN = re.compile(r"clawsite-(\d{4}-\d\d-\d\d)\.log")
LINE_PATTERN = re.compile(rb"[^\n]*\n|[^\n]+")


class DailyFileHandler(logging.Handler):
    def __init__(self, directory: Path, *, max_bytes: int = MAX_DAY_BYTES) -> None:
        super().__init__()
        self._directory, self._max_bytes = directory, max_bytes
        self._day = ""
        self._file: int | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = (self.format(record) + "\n").encode(errors="backslashreplace")
            day = datetime.fromtimestamp(record.created, UTC).date().isoformat()
            if day > self._day:
                self._open(day)
            if self._file is not None and os.fstat(self._file).st_size + len(line) <= self._max_bytes:
                os.write(self._file, line)
        except OSError:  # no space or no permission: the line is still on stderr, and logging the error would fail too
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
            if (match := FILE_NAME_PATTERN.fullmatch(path.name)) and match[1] < oldest:
                path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Whole lines of a log file and the offset of their end. `reset` means that they don't continue the previous chunk."""

    file: Path
    cursor: int
    size: int
    lines: list[str]
    truncated: bool = False  # more lines follow the chunk or, if no cursor was given, precede it
    reset: bool = False
    skipped: int = 0  # bytes of the file before the first line


def find_newest_file(directory: Path) -> Path | None:
    """Return the log file of the latest day, or None."""
    try:
        names = sorted(path.name for path in directory.iterdir() if FILE_NAME_PATTERN.fullmatch(path.name))
    except FileNotFoundError:
        return None
    return directory / names[-1] if names else None


def read_chunk(file: Path, *, cursor: int | None, name: str | None, max_lines: int, max_bytes: int) -> LogChunk:
    """Read the lines after a cursor, or the last lines without one. If the cursor is for another file, start at the beginning."""
    opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        size = os.fstat(opened).st_size
        reset = cursor is not None and (cursor > size or name not in (None, file.name))
        start = max(0, size - max_bytes) if cursor is None else 0 if reset else cursor
        content = os.pread(opened, max_bytes, start)
    finally:
        os.close(opened)
    lines = LINE_PATTERN.findall(content)
    if lines and not lines[-1].endswith(b"\n") and (len(lines) > 1 or start + len(content) == size):
        lines.pop()  # still being written, or cut by the limit; a single line longer than the limit is returned in parts
    if cursor is None:
        end = start + sum(map(len, lines))
        selected = lines[1:][-max_lines:] if start else lines[-max_lines:]  # `start` may be inside a line
        skipped = end - sum(map(len, selected))
        return LogChunk(file, end, size, _decode_lines(selected), truncated=skipped > 0, skipped=skipped)
    selected = lines[:max_lines]
    end = start + sum(map(len, selected))
    return LogChunk(
        file,
        end,
        size,
        _decode_lines(selected),
        truncated=end < start + sum(map(len, lines)) or start + len(content) < size,
        reset=reset,
    )


def _decode_lines(lines: list[bytes]) -> list[str]:
    return [line.decode(errors="replace").removesuffix("\n") for line in lines]
