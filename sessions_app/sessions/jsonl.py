"""A transcript as JSONL: one JSON object a line, the session first, then its entries in order. Pure: knows no database.

    {"type": "session", "version": 1, "key": …, "agent": …, "sessionId": …, "createdAt": …, "title": …, "generation": 1}
    {"type": "message", "id": "6f1c", "parentId": null, "timestamp": "2026-02-01T10:15:00Z", "message": {"role": …}, …}

`parentId` is the id of the line before: the transcript has no branches. A `rewind` hides the lines between it and the one that
its message calls `keepThrough` (null: all of its generation). Reading believes nothing. What it lets pass can be stored
and later be given to a model; what it does not is refused with the number of the line.
"""

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import IO, Any

import orjson

from clawsite.infra.errors import InvalidRequest
from clawsite.infra.text import storable

VERSION = 1
LONGEST_LINE = 8 << 20  # bytes: a prompt of a million characters fits, and a few of these fit into memory
MOST_LINES = 100_000
LONGEST_TITLE = 200
LONGEST_ROLE = 16

# Kind of an entry -> its type on the line.
TYPES = {
    "message": "message",
    "tool_result": "toolResult",
    "compaction": "compaction",
    "session": "session",
    "rewind": "rewind",
}
KINDS = {name: kind for kind, name in TYPES.items()}
ROLES = {"message": ("user", "assistant"), "tool_result": ("toolResult",)}
# What a message says about itself elsewhere: on its line, or in the run it belonged to, which does not travel with it.
NOT_META = {"role", "content", "timestamp", "messageId", "runId"}
# What the code that reads an entry back relies on.
BLOCKS: dict[str, dict[str, type]] = {
    "text": {"text": str},
    "thinking": {"thinking": str},
    "toolCall": {"id": str, "name": str, "arguments": dict},
}
WORDS: dict[type, str] = {str: "a string", dict: "an object", list: "a list", int: "a whole number"}
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,32}")


@dataclass(frozen=True, slots=True)
class Header:
    key: str = ""
    agent: str = ""
    session_id: str = ""
    created_at: dt.datetime | None = None
    title: str = ""
    generation: int = 1  # the current one; entries of lower numbers are from before a reset


@dataclass(frozen=True, slots=True)
class Entry:
    kind: str
    id: str
    moment: dt.datetime
    role: str
    content: list[dict[str, Any]]
    text: str
    meta: dict[str, Any] = field(default_factory=dict)
    generation: int = 1
    run_id: str | None = None  # told for the reader; an imported entry belongs to no run
    keep_through: int | None = None  # of a rewind that was read: the number of the last entry that stays, from 1


class BadLine(Exception):
    """What is wrong with a line; the number is added by whoever counts."""


def header_line(header: Header) -> bytes:
    line = {
        "type": "session",
        "version": VERSION,
        "key": header.key,
        "agent": header.agent,
        "sessionId": header.session_id,
        "createdAt": _iso(header.created_at) if header.created_at else None,
        "title": header.title,
        "generation": header.generation,
    }
    return orjson.dumps(line) + b"\n"


def entry_line(entry: Entry, parent_id: str | None) -> bytes:
    line: dict[str, Any] = {
        "type": TYPES[entry.kind],
        "id": entry.id,
        "parentId": parent_id,
        "timestamp": _iso(entry.moment),
        "generation": entry.generation,
        "message": {**entry.meta, "role": entry.role, "content": entry.content},
    }
    if entry.text != plain_words(entry.content):
        line["text"] = entry.text
    if entry.run_id:
        line["runId"] = entry.run_id
    return orjson.dumps(line) + b"\n"


def plain_words(content: Iterable[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in content if block.get("type") == "text")


def lines_of(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file within the limits; a line that is too long is never read to its end."""
    number = 0
    while line := file.readline(LONGEST_LINE + 2):  # with its line break, and one more to see that it is too long
        number += 1
        if number > MOST_LINES:
            raise InvalidRequest(f"line {number}: a transcript has at most {MOST_LINES:,} lines")
        if len(line.rstrip(b"\r\n")) > LONGEST_LINE:
            raise InvalidRequest(f"line {number}: longer than {LONGEST_LINE:,} bytes")
        yield line


def read_transcript(lines: Iterable[bytes]) -> tuple[Header, Iterator[Entry]]:
    """The header at once, the entries one by one; InvalidRequest names the first line that is wrong. Blank lines are skipped."""
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    number, first = next(numbered, (1, b""))
    try:
        header = _header(_object(first))
    except BadLine as bad:
        raise InvalidRequest(f"line {number}: {bad}") from None
    return header, _entries(numbered, header)


def _entries(numbered: Iterable[tuple[int, bytes]], header: Header) -> Iterator[Entry]:
    previous: Entry | None = None
    seen: dict[str, tuple[int, int]] = {}  # id -> its number and generation
    for number, raw in numbered:
        try:
            line = _object(raw)
            entry = _entry(line)
            _check_place(entry, line.get("parentId"), previous, header)
            if entry.id in seen:
                raise BadLine(f"the id {entry.id!r} was used by an earlier line")
            if entry.kind == "rewind":
                entry = replace(entry, keep_through=_kept(entry, seen))
        except BadLine as bad:
            raise InvalidRequest(f"line {number}: {bad}") from None
        seen[entry.id] = len(seen) + 1, entry.generation
        previous = entry
        yield entry


def _kept(entry: Entry, seen: dict[str, tuple[int, int]]) -> int:
    """The number of the entry a rewind goes back to; 0 is before the first."""
    kept = entry.meta.get("keepThrough")
    if kept is None:
        return 0
    number, generation = seen.get(kept, (0, 0)) if isinstance(kept, str) else (0, 0)
    if generation != entry.generation:
        raise BadLine(f"keepThrough is {_short(kept)} and not the id of an earlier entry of the same generation")
    return number


def _check_place(entry: Entry, parent_id: object, previous: Entry | None, header: Header) -> None:
    wanted = previous.id if previous else None
    if parent_id != wanted:
        raise BadLine(
            f"parentId is {_short(parent_id)} and not {wanted!r}, the id of the entry before: a transcript has no branches"
        )
    if entry.generation < (previous.generation if previous else 1):
        raise BadLine(f"generation {entry.generation} comes after a higher one")
    if entry.generation > header.generation:
        raise BadLine(f"generation {entry.generation} is higher than the session's, which is {header.generation}")


def _object(raw: bytes) -> dict[str, Any]:
    try:
        line = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadLine(f"not JSON: {error.msg} (column {error.colno})") from None
    if not isinstance(line, dict):
        raise BadLine("not a JSON object")
    try:
        orjson.dumps(line)  # it reads 1,024 levels and writes 254; the database is written with it
    except TypeError:
        raise BadLine("nested too deeply") from None
    clean: dict[str, Any] = storable(line)
    return clean


def _header(line: dict[str, Any]) -> Header:
    if line.get("type") != "session" or "version" not in line:
        raise BadLine('the first line must be the session\'s: {"type": "session", "version": 1, …}')
    if _take(line, "version", int) != VERSION:
        raise BadLine(f"version {line['version']} is not known here, only {VERSION}")
    created = line.get("createdAt")
    return Header(
        key=_take(line, "key", str, ""),
        agent=_take(line, "agent", str, ""),
        session_id=_take(line, "sessionId", str, ""),
        created_at=None if created is None else _moment(created, "createdAt"),
        title=_take(line, "title", str, "")[:LONGEST_TITLE],
        generation=_generation(line),
    )


def _entry(line: dict[str, Any]) -> Entry:
    kind = KINDS.get(_take(line, "type", str))
    if kind is None:
        raise BadLine(f"type is {_short(line['type'])}; it must be one of {', '.join(KINDS)}")
    entry_id = _take(line, "id", str)
    if not _ID.fullmatch(entry_id):
        raise BadLine(f"id is {_short(entry_id)}; it must have 1 to 32 letters, digits or any of _ . : -")
    message = _take(line, "message", dict)
    role = _take(message, "role", str)
    if role not in ROLES.get(kind, (role,)) or len(role) > LONGEST_ROLE:
        raise BadLine(f"the role of a {line['type']} cannot be {_short(role)}")
    content = _take(message, "content", list)
    for block in content:
        _check_block(block)
    if kind == "tool_result":
        _take(message, "toolCallId", str)
        _take(message, "toolName", str)
    return Entry(
        kind=kind,
        id=entry_id,
        moment=_moment(line.get("timestamp"), "timestamp"),
        role=role,
        content=content,
        text=_take(line, "text", str, plain_words(content)),
        meta={name: value for name, value in message.items() if name not in NOT_META},
        generation=_generation(line),
        run_id=_take(line, "runId", str, "") or None,
    )


def _check_block(block: object) -> None:
    if not isinstance(block, dict):
        raise BadLine("content has a block that is not an object")
    kind = _take(block, "type", str)
    for name, wanted in BLOCKS.get(kind, {}).items():
        _take(block, name, wanted)


def _generation(line: dict[str, Any]) -> int:
    number: int = _take(line, "generation", int, 1)
    if number < 1:
        raise BadLine(f"generation is {number}; the first is 1")
    return number


def _take(line: dict[str, Any], name: str, wanted: type, default: Any = None) -> Any:
    """A field of the line. Without a default it must be there; true and false are no numbers."""
    if name not in line and default is not None:
        return default
    value = line.get(name)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise BadLine(f"{name} must be {WORDS[wanted]}" if name in line else f"{name} is missing")
    return value


def _moment(value: object, name: str) -> dt.datetime:
    try:
        moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else None
        if moment is not None and moment.tzinfo:
            return moment.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        pass
    raise BadLine(f"{name} is {_short(value)}; it must be a time with its zone such as 2026-02-01T10:15:00Z")


def _iso(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")


def _short(value: object) -> str:
    words = repr(value)
    return words if len(words) <= 60 else words[:59] + "…"
