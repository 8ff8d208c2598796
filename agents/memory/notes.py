"""An agent's notes as files: MEMORY.md and memory/**/*.md of its workspace, listed, read and cut into pieces. Blocking; no rows.

Everything is opened through the workspace's guard, so no link leads out of it.
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
# A token is about four bytes of UTF-8, in English as in Chinese: 400 tokens, of which 80 stand in the next piece too.
CHUNK_BYTES, OVERLAP_BYTES = 1_600, 320
# A file may change twice within one tick of its clock. What changed so lately is read again the next time.
SETTLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class NoteListing:
    """path -> stamp of the notes that are searched, and in words those that are not."""

    stamps: dict[str, str]
    left_out: list[str] = field(default_factory=list)


class NoteChunk(NamedTuple):
    start_line: int  # counted from 1
    end_line: int
    text: str


class Note(NamedTuple):
    stamp: str
    digest: str  # empty: it is no text
    chunks: list[NoteChunk]


def is_note(workspace: Workspace, path: str) -> bool:
    return matches_file(NOTE_FILES, "/".join(workspace.parts(path)))


def list_notes(workspace: Workspace) -> NoteListing:
    """The notes there are: those in the directory itself, then the newest."""
    found: list[tuple[bool, float, str, str]] = []
    left_out: list[str] = []
    walk = tree.FileWalk(NOTE_FILES, max_entries=MAX_WALKED)
    with workspace.directory(".") as top:
        for file in walk.walk_below(top):
            try:
                seen = os.lstat(file.name, dir_fd=file.parent)
            except OSError:  # gone by now
                continue
            if why := _explain_skip(file.path, seen):
                left_out.append(f"{_display_path(file.path)} {why}")
            else:
                found.append(("/" in file.path, -seen.st_mtime, file.path, _stamp(seen)))
    found.sort()
    if len(found) > MAX_FILES:
        left_out.append(f"the {len(found) - MAX_FILES} oldest notes: only {MAX_FILES} are searched")
    if not walk.complete:
        left_out.append(f"what lies too deep or behind the first {MAX_WALKED} entries of the directory")
    return NoteListing({path: stamp for _, _, path, stamp in found[:MAX_FILES]}, left_out)


def _explain_skip(path: str, seen: os.stat_result) -> str:
    if seen.st_size > MAX_FILE_BYTES:
        return f"has {seen.st_size} bytes; notes of at most {MAX_FILE_BYTES} are searched"
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
    """None when it is gone or cannot be opened any more."""
    now = time.time()
    try:
        content, seen = workspace.read(path)
    except ToolFailed:
        return None
    if len(content) > MAX_FILE_BYTES:  # it has grown since it was listed
        return None
    stamp = _stamp(seen) if now - seen.st_mtime > SETTLE_SECONDS else ""
    try:
        text = decode_text(content, path).removeprefix("\ufeff")
    except ToolFailed:
        return Note(stamp, "", [])
    return Note(stamp, hashlib.sha256(content).hexdigest(), split_chunks(text.replace("\0", "")))


def split_lines(text: str) -> list[str]:
    """As `read` counts them too."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


class _LinePart(NamedTuple):
    """A line, or some of one that is longer than an overlap."""

    line: int
    text: str
    size: int


def split_chunks(text: str) -> list[NoteChunk]:
    """The lines of a text in pieces of about 400 tokens, each beginning with the end of the one before."""
    pieces: list[NoteChunk] = []
    parts: list[_LinePart] = []  # of the piece that grows
    size = begun_with = 0
    for part in _split_parts(text):
        if len(parts) > begun_with and size + part.size > CHUNK_BYTES:
            pieces.append(_join_parts(parts))
            parts = _tail(parts)
            size, begun_with = sum(each.size for each in parts), len(parts)
        parts.append(part)
        size += part.size
    if len(parts) > begun_with:
        pieces.append(_join_parts(parts))
    return [piece for piece in pieces if piece.text.strip()]


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
    """The last parts that fit the overlap."""
    room, start = OVERLAP_BYTES, len(parts)
    while start > 0 and (room := room - parts[start - 1].size) >= 0:
        start -= 1
    return parts[start:]


def _join_parts(parts: list[_LinePart]) -> NoteChunk:
    """What belongs to one line is joined without a break: a word may stand across two parts."""
    breaks = ["" if before.line == part.line else "\n" for before, part in pairwise(parts)]
    text = "".join(words + end for (_, words, _), end in zip(parts, [*breaks, ""], strict=True))
    return NoteChunk(parts[0].line, parts[-1].line, text)
