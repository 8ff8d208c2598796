"""The patch format that OpenAI's models are trained on: parse it, and apply its hunks to a file's text. Pure.

    *** Begin Patch
    *** Update File: path        (or Add File, whose lines all begin with +, or Delete File)
    *** Move to: new path        (optional)
    @@ a line further up         (repeat as needed to locate the hunk)
     an unchanged line
    -a removed line
    +an added line
    *** End of File              (if the hunk is at the end)
    *** End Patch

Nothing is guessed: a hunk that matches nowhere, or in several places, is an error that says what to send instead.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, DELETE, UPDATE, MOVE, AT_END = "*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: ", "*** End of File"
LINE_NUMBERS = re.compile(r"@@ *-\d+")
MAX_LINES_SHOWN = 3  # of a hunk that was not found


class BadPatch(Exception):
    """The patch can't be parsed or doesn't apply; the message is for the model."""


@dataclass(slots=True)
class Hunk:
    """The `old` lines, which include unchanged ones, are searched for after the `anchors` and edited according to `changes`."""

    line: int  # line number in the patch, for error messages
    anchors: list[str] = field(default_factory=list)
    changes: list[tuple[str, str]] = field(default_factory=list)  # ("+", "-", " " or nothing, text)
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.changes if sign != "+"]


@dataclass(slots=True)
class AddFile:
    path: str
    lines: list[str] = field(default_factory=list)
    is_over: bool = False  # True after an empty line, which separates this file from the next

    @property
    def content(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)


@dataclass(slots=True)
class DeleteFile:
    path: str


@dataclass(slots=True)
class UpdateFile:
    path: str
    move_to: str = ""
    hunks: list[Hunk] = field(default_factory=list)


FileChange = AddFile | DeleteFile | UpdateFile


def parse_patch(text: str) -> list[FileChange]:
    lines = text.strip().replace("\r\n", "\n").split("\n")
    if lines[0].strip() != BEGIN:
        raise BadPatch(f"the first line must be `{BEGIN}`")
    if lines[-1].strip() != END:
        raise BadPatch(f"the last line must be `{END}`")
    changes: list[FileChange] = []
    for number, line in enumerate(lines[1:-1], start=2):
        if line.startswith((ADD, DELETE, UPDATE)):
            changes.append(_start_change(line, number))
        elif line.startswith("*** ") and not line.startswith((MOVE, AT_END)):
            raise BadPatch(f"line {number}: unknown directive `{line}`; use Add File, Delete File, Update File or Move to")
        elif changes:
            _add_line(changes[-1], line, number)
        elif line.strip():
            raise BadPatch(f"line {number} comes before any file: start with `{UPDATE}path`, `{ADD}path` or `{DELETE}path`")
    if not changes:
        raise BadPatch("the patch contains no files")
    for change in changes:
        if not isinstance(change, UpdateFile):
            continue
        for hunk in change.hunks:
            while hunk.changes and hunk.changes[-1] == ("", ""):
                hunk.changes.pop()
        change.hunks = [hunk for hunk in change.hunks if hunk.changes]
        if not change.hunks and not change.move_to:
            raise BadPatch(f"the update of `{change.path}` has no changes: add lines that begin with - or + after an @@ line")
    return changes


def _start_change(line: str, number: int) -> FileChange:
    kinds: dict[str, Callable[[str], FileChange]] = {ADD: AddFile, DELETE: DeleteFile, UPDATE: UpdateFile}
    prefix = next(each for each in kinds if line.startswith(each))
    path = line.removeprefix(prefix).strip()
    if not path:
        raise BadPatch(f"line {number}: the path is missing")
    return kinds[prefix](path)


def _add_line(change: FileChange, line: str, number: int) -> None:
    """Add a line to a file's section of the patch."""
    match change:
        case AddFile():
            if line and (change.is_over or not line.startswith("+")):
                raise BadPatch(f"line {number}: every line of the new file `{change.path}` must begin with +, even empty ones")
            change.is_over = not line
            change.lines += [line[1:]] if line else []
        case DeleteFile():
            if line.strip():
                raise BadPatch(f"line {number}: nothing can follow `{DELETE}{change.path}`")
        case UpdateFile():
            _add_update_line(change, line, number)


def _add_update_line(change: UpdateFile, line: str, number: int) -> None:
    hunk = change.hunks[-1] if change.hunks else None
    if line.startswith(MOVE):
        if hunk or change.move_to:
            raise BadPatch(f"line {number}: `{MOVE.strip()}` must directly follow `{UPDATE}{change.path}`")
        change.move_to = line.removeprefix(MOVE).strip()
    elif line.startswith("@@"):
        if hunk is None or hunk.changes:
            hunk = Hunk(number)
            change.hunks.append(hunk)
        if LINE_NUMBERS.match(line):
            raise BadPatch(f"line {number}: line numbers are not supported; write a line of the file after @@, or nothing")
        if anchor := line.removeprefix("@@").strip():
            hunk.anchors.append(anchor)
    elif line.startswith(AT_END):
        if hunk is None or not hunk.changes:
            raise BadPatch(f"line {number}: `{AT_END}` must follow the lines of a hunk")
        hunk.at_end = True
    elif line[:1] in ("", " ", "+", "-"):
        if hunk is None:
            hunk = Hunk(number)
            change.hunks.append(hunk)
        if hunk.at_end:
            raise BadPatch(f"line {number} follows `{AT_END}`: start another hunk with @@")
        hunk.changes.append((line[:1], line[1:]))  # an empty line has lost its leading space, or separates two files
    else:
        raise BadPatch(f"line {number} of the patch must begin with a space, - or +, or be an @@ line: `{line[:80]}`")


def apply_hunks(text: str, change: UpdateFile) -> tuple[str, list[int]]:
    """Return the new text, and the line numbers of hunks that only match when trailing whitespace is ignored.

    Line endings and unchanged lines are preserved byte for byte.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    body = text.removeprefix(mark)
    lines = body.removesuffix("\n").split("\n") if body else []
    is_open = bool(body) and not body.endswith("\n")  # no line break after the last line
    end = "\r" if sum(line.endswith("\r") for line in lines) * 2 > len(lines) - is_open else ""
    if is_open:
        lines[-1] += end  # other lines may be added after the last one
    bare = [line.removesuffix("\r") for line in lines]
    result: list[str] = []
    done, fuzzy = 0, []
    for hunk in change.hunks:
        begin, is_exact = _find_position(hunk, bare, done, change.path)
        result += lines[done:begin]
        done = begin
        for sign, added in hunk.changes:
            if sign == "+":
                result.append(added + end)
            else:
                result += [] if sign == "-" else [lines[done]]
                done += 1
        fuzzy += [] if is_exact else [begin + 1]
    result += lines[done:]
    changed = "".join(f"{line}\n" for line in result)
    return mark + (changed.removesuffix(f"{end}\n") if is_open else changed), fuzzy


def _find_position(hunk: Hunk, lines: Sequence[str], begin: int, path: str) -> tuple[int, bool]:
    """Return the position of the hunk at or after `begin`, and whether its lines match exactly."""
    for anchor in hunk.anchors:
        position = next((at for at in range(begin, len(lines)) if lines[at].strip() == anchor), None)
        if position is None:
            raise BadPatch(f"`{path}` has no line `{anchor}` at or after line {begin + 1}, as the @@ line of the patch requires")
        begin = position + 1
    old = hunk.old
    if not old:
        return (begin if hunk.anchors else len(lines)), True
    for is_exact, same in ((True, _is_equal), (False, _is_equal_without_trailing_space)):
        last = len(lines) - len(old)
        positions = [
            at for at in ([last] if hunk.at_end else range(begin, last + 1)) if at >= begin and _matches_at(old, lines, at, same)
        ]
        if len(positions) > 1 and not hunk.anchors:
            numbers = ", ".join(str(at + 1) for at in positions[:5])
            raise BadPatch(
                f"the hunk at line {hunk.line} of the patch matches `{path}` at lines {numbers}: "
                "include more surrounding lines, or add an @@ line"
            )
        if positions:
            return positions[0], is_exact
    shown = "\n".join(old[:MAX_LINES_SHOWN])
    where = "at its end" if hunk.at_end else f"at or after line {begin + 1}"
    raise BadPatch(f"`{path}` does not have these lines {where}; read the file again:\n{shown}")


def _matches_at(old: Sequence[str], lines: Sequence[str], at: int, same: Callable[[str, str], bool]) -> bool:
    return all(same(wanted, lines[at + number]) for number, wanted in enumerate(old))


def _is_equal(wanted: str, line: str) -> bool:
    return wanted == line


def _is_equal_without_trailing_space(wanted: str, line: str) -> bool:
    return wanted.rstrip() == line.rstrip()
