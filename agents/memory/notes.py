"""List, read and split an agent's note files: MEMORY.md and memory/**/*.md in its workspace. Blocking; no database.

All files are opened through `Workspace`, so no link can lead outside it.
"""

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tools_app.builtin.files import tree
from tools_app.builtin.files.patterns import FilePattern, matches_file
from tools_app.builtin.files.read_write import MAX_WALKED, decode_text
from tools_app.builtin.files.workspace import Workspace
from tools_app.core.definition import ToolFailed

NOTE_FILES = FilePattern("{MEMORY.md,memory.md,memory/**/*.md}")
MAX_FILES = 1_000
MAX_FILE_BYTES = 1024 * 1024
MAX_PATH_LENGTH = 1_000  # bytes; the index has a column of that size
# A token is about four bytes of UTF-8, in English as in Chinese: 400 tokens, of which 80 are repeated in the next chunk.
CHUNK_BYTES, OVERLAP_BYTES = 1_600, 320
# A file can change twice within one tick of its timestamp, so recently changed files are read again next time.
SETTLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class NoteListing:
    """path -> stamp of the notes that are searched, and descriptions of those that are not."""

    stamps: dict[str, str]
    left_out: list[str] = field(default_factory=list)


class NoteChunk(NamedTuple):
    start_line: int  # counted from 1
    end_line: int
    text: str


class Note(NamedTuple):
    stamp: str
    digest: str  # empty if the file is not text
    chunks: list[NoteChunk]


def is_note(workspace: Workspace, path: str) -> bool:
    return matches_file(NOTE_FILES, "/".join(workspace.parts(path)))


def list_notes(workspace: Workspace) -> NoteListing:
    """List the notes: first those in the workspace's top directory, then the others, newest first."""
    listed: list[tuple[bool, float, str, str]] = []
    left_out: list[str] = []
    walk = tree.FileWalk(NOTE_FILES, max_entries=MAX_WALKED)
    with workspace.directory(".") as top:
        for file in walk.walk_below(top):
            try:
                seen = os.lstat(file.name, dir_fd=file.parent)
            except OSError:  # deleted concurrently
                continue
            if why := _explain_skip(file.path, seen):
                left_out.append(f"{_display_path(file.path)} {why}")
            else:
                listed.append(("/" in file.path, -seen.st_mtime, file.path, _stamp(seen)))
    listed.sort()
    if len(listed) > MAX_FILES:
        left_out.append(f"the {len(listed) - MAX_FILES} oldest notes: only {MAX_FILES} are searched")
    if not walk.complete:
        left_out.append(f"files nested too deeply or beyond the first {MAX_WALKED} directory entries")
    return NoteListing({path: stamp for _, _, path, stamp in listed[:MAX_FILES]}, left_out)


def _explain_skip(path: str, seen: os.stat_result) -> str:
    if seen.st_size > MAX_FILE_BYTES:
        return f"has {seen.st_size} bytes; the limit is {MAX_FILE_BYTES}"
    try:
        too_long = len(path.encode()) > MAX_PATH_LENGTH
    except UnicodeEncodeError:
        return "has a name that is not UTF-8"
    return "has a path that is too long" if too_long else ""


def _display_path(path: str) -> str:
    return path[:200].encode(errors="replace").decode()


def _stamp(seen: os.stat_result) -> str:
    return f"{seen.st_mtime_ns}:{seen.st_size}:{seen.st_ino}"


def read_note(workspace: Workspace, path: str) -> Note | None:
    """Read a note; return None if it can't be opened."""
    now = time.time()
    try:
        content, seen = workspace.read(path)
    except ToolFailed:
        return None
    if len(content) > MAX_FILE_BYTES:  # the file has grown since it was listed
        return None
    stamp = _stamp(seen) if now - seen.st_mtime > SETTLE_SECONDS else ""
    try:
        text = decode_text(content, path).removeprefix("\ufeff")
    except ToolFailed:
        return Note(stamp, "", [])
    return Note(stamp, hashlib.sha256(content).hexdigest(), split_chunks(text.replace("\0", "")))


def split_lines(text: str) -> list[str]:
    """Split into lines the same way the `read` tool does."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


class _LinePart(NamedTuple):
    """A line, or a part of a line that is longer than the overlap."""

    line: int
    text: str
    size: int


def split_chunks(text: str) -> list[NoteChunk]:
    """Split a text into chunks of about 400 tokens, each starting with the end of the previous one."""
    chunks: list[NoteChunk] = []
    parts: list[_LinePart] = []  # of the current chunk
    size = overlap_parts = 0
    for part in _split_parts(text):
        if len(parts) > overlap_parts and size + part.size > CHUNK_BYTES:
            chunks.append(_join_parts(parts))
            parts = _tail(parts)
            size, overlap_parts = sum(each.size for each in parts), len(parts)
        parts.append(part)
        size += part.size
    if len(parts) > overlap_parts:
        chunks.append(_join_parts(parts))
    return [chunk for chunk in chunks if chunk.text.strip()]


def _split_parts(text: str) -> Iterator[_LinePart]:
    step = OVERLAP_BYTES // 4  # characters, so that a part always fits the overlap
    for number, line in enumerate(split_lines(text), 1):
        size = len(line.encode()) + 1
        if size <= OVERLAP_BYTES:
            yield _LinePart(number, line, size)
        else:
            some = (line[begin : begin + step] for begin in range(0, len(line), step))
            yield from (_LinePart(number, part, len(part.encode())) for part in some)


def _tail(parts: list[_LinePart]) -> list[_LinePart]:
    """Return the last parts that fit in the overlap."""
    room, start = OVERLAP_BYTES, len(parts)
    while start > 0 and (room := room - parts[start - 1].size) >= 0:
        start -= 1
    return parts[start:]


def _join_parts(parts: list[_LinePart]) -> NoteChunk:
    """Join parts of one line without a break: a word may be split between two parts."""
    breaks = ["" if before.line == part.line else "\n" for before, part in pairwise(parts)]
    text = "".join(part_text + end for (_, part_text, _), end in zip(parts, [*breaks, ""], strict=True))
    return NoteChunk(parts[0].line, parts[-1].line, text)
