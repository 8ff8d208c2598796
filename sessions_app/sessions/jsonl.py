"""A transcript as JSONL: one JSON object per line, the session first, then its entries in order. Pure: no database access.

    {"type": "session", "version": 1, "key": …, "agent": …, "sessionId": …, "createdAt": …, "title": …, "generation": 1}
    {"type": "message", "id": "6f1c", "parentId": null, "timestamp": "2026-02-01T10:15:00Z", "message": {"role": …}, …}

`parentId` is the ID of the previous line: the transcript has no branches. A `rewind` hides the lines between it and the one named
by its `keepThrough` (null: its whole generation). Input is fully validated: what passes can be stored and later given to a
model; anything else is rejected with its line number.
"""

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import IO, Any

import orjson

from clawsite.infra.errors import InvalidRequest
from clawsite.infra.text import make_storable

VERSION = 1
MAX_LINE_BYTES = 8 << 20  # bytes: fits a prompt of a million characters, and a few such lines fit into memory
MAX_LINES = 100_000
MAX_TITLE_LENGTH = 200
MAX_ROLE_LENGTH = 16

# Entry kind -> type on the line.
TYPE_BY_KIND = {
    "message": "message",
    "tool_result": "toolResult",
    "compaction": "compaction",
    "session": "session",
    "rewind": "rewind",
}
KIND_BY_TYPE = {name: kind for kind, name in TYPE_BY_KIND.items()}
ROLES = {"message": ("user", "assistant"), "tool_result": ("toolResult",)}
# Message details stored elsewhere: on its line, or in its run, which isn't exported.
NON_META_FIELDS = {"role", "content", "timestamp", "messageId", "runId"}
# Fields required by the code that reads entries back.
BLOCK_FIELDS: dict[str, dict[str, type]] = {
    "text": {"text": str},
    "thinking": {"thinking": str},
    "toolCall": {"id": str, "name": str, "arguments": dict},
}
TYPE_LABELS: dict[type, str] = {str: "a string", dict: "an object", list: "a list", int: "a whole number"}
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,32}")


@dataclass(frozen=True, slots=True)
class TranscriptHeader:
    key: str = ""
    agent: str = ""
    session_id: str = ""
    created_at: dt.datetime | None = None
    title: str = ""
    generation: int = 1  # the current one; lower numbers are from before a reset


@dataclass(frozen=True, slots=True)
class JsonlEntry:
    kind: str
    id: str
    moment: dt.datetime
    role: str
    content: list[dict[str, Any]]
    text: str
    meta: dict[str, Any] = field(default_factory=dict)
    generation: int = 1
    run_id: str | None = None  # informational; an imported entry belongs to no run
    keep_through: int | None = None  # for a parsed rewind: the number of the last entry that stays, from 1


class BadLine(Exception):
    """A problem with a line; the caller adds the line number."""


def format_header(header: TranscriptHeader) -> bytes:
    line = {
        "type": "session",
        "version": VERSION,
        "key": header.key,
        "agent": header.agent,
        "sessionId": header.session_id,
        "createdAt": _format_datetime(header.created_at) if header.created_at else None,
        "title": header.title,
        "generation": header.generation,
    }
    return orjson.dumps(line) + b"\n"


def format_entry(entry: JsonlEntry, parent_id: str | None) -> bytes:
    line: dict[str, Any] = {
        "type": TYPE_BY_KIND[entry.kind],
        "id": entry.id,
        "parentId": parent_id,
        "timestamp": _format_datetime(entry.moment),
        "generation": entry.generation,
        "message": {**entry.meta, "role": entry.role, "content": entry.content},
    }
    if entry.text != extract_text(entry.content):
        line["text"] = entry.text
    if entry.run_id:
        line["runId"] = entry.run_id
    return orjson.dumps(line) + b"\n"


def extract_text(content: Iterable[dict[str, Any]]) -> str:
    return "\n".join(block["text"] for block in content if block.get("type") == "text")


def read_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file within the limits; an overlong line is never read completely."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 2):  # with its line break, plus one byte to detect an overlong line
        number += 1
        if number > MAX_LINES:
            raise InvalidRequest(f"line {number}: a transcript can have at most {MAX_LINES:,} lines")
        if len(line.rstrip(b"\r\n")) > MAX_LINE_BYTES:
            raise InvalidRequest(f"line {number}: longer than {MAX_LINE_BYTES:,} bytes")
        yield line


def read_transcript(lines: Iterable[bytes]) -> tuple[TranscriptHeader, Iterator[JsonlEntry]]:
    """Return the header, and an iterator of entries; InvalidRequest names the first bad line. Blank lines are skipped."""
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    number, first = next(numbered, (1, b""))
    try:
        header = _parse_header(_parse_object(first))
    except BadLine as bad:
        raise InvalidRequest(f"line {number}: {bad}") from None
    return header, _parse_entries(numbered, header)


def _parse_entries(numbered: Iterable[tuple[int, bytes]], header: TranscriptHeader) -> Iterator[JsonlEntry]:
    previous: JsonlEntry | None = None
    seen: dict[str, tuple[int, int]] = {}  # ID -> its number and generation
    for number, raw in numbered:
        try:
            line = _parse_object(raw)
            entry = _parse_entry(line)
            _check_position(entry, line.get("parentId"), previous, header)
            if entry.id in seen:
                raise BadLine(f"duplicate id {entry.id!r}")
            if entry.kind == "rewind":
                entry = replace(entry, keep_through=_find_rewind_target(entry, seen))
        except BadLine as bad:
            raise InvalidRequest(f"line {number}: {bad}") from None
        seen[entry.id] = len(seen) + 1, entry.generation
        previous = entry
        yield entry


def _find_rewind_target(entry: JsonlEntry, seen: dict[str, tuple[int, int]]) -> int:
    """Return the number of the entry a rewind goes back to; 0 means before the first."""
    keep_through = entry.meta.get("keepThrough")
    if keep_through is None:
        return 0
    number, generation = seen.get(keep_through, (0, 0)) if isinstance(keep_through, str) else (0, 0)
    if generation != entry.generation:
        raise BadLine(f"keepThrough is {_shorten(keep_through)}; it must be the id of an earlier entry of the same generation")
    return number


def _check_position(entry: JsonlEntry, parent_id: object, previous: JsonlEntry | None, header: TranscriptHeader) -> None:
    expected = previous.id if previous else None
    if parent_id != expected:
        raise BadLine(f"parentId is {_shorten(parent_id)}; it must be {expected!r}, the id of the previous entry")
    if entry.generation < (previous.generation if previous else 1):
        raise BadLine(f"generation {entry.generation} follows a higher one")
    if entry.generation > header.generation:
        raise BadLine(f"generation {entry.generation} is higher than the session's ({header.generation})")


def _parse_object(raw: bytes) -> dict[str, Any]:
    try:
        line = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadLine(f"not JSON: {error.msg} (column {error.colno})") from None
    if not isinstance(line, dict):
        raise BadLine("not a JSON object")
    try:
        orjson.dumps(line)  # orjson reads 1,024 levels but writes only 254, and it serializes what goes into the database
    except TypeError:
        raise BadLine("nested too deeply") from None
    clean: dict[str, Any] = make_storable(line)
    return clean


def _parse_header(line: dict[str, Any]) -> TranscriptHeader:
    if line.get("type") != "session" or "version" not in line:
        raise BadLine('the first line must describe the session: {"type": "session", "version": 1, …}')
    if _read_field(line, "version", int) != VERSION:
        raise BadLine(f"unsupported version {line['version']}; only {VERSION} is supported")
    created = line.get("createdAt")
    return TranscriptHeader(
        key=_read_field(line, "key", str, ""),
        agent=_read_field(line, "agent", str, ""),
        session_id=_read_field(line, "sessionId", str, ""),
        created_at=None if created is None else _parse_datetime(created, "createdAt"),
        title=_read_field(line, "title", str, "")[:MAX_TITLE_LENGTH],
        generation=_parse_generation(line),
    )


def _parse_entry(line: dict[str, Any]) -> JsonlEntry:
    kind = KIND_BY_TYPE.get(_read_field(line, "type", str))
    if kind is None:
        raise BadLine(f"type is {_shorten(line['type'])}; it must be one of {', '.join(KIND_BY_TYPE)}")
    entry_id = _read_field(line, "id", str)
    if not _ID.fullmatch(entry_id):
        raise BadLine(f"id is {_shorten(entry_id)}; it must have 1 to 32 characters: letters, digits, _ . : -")
    message = _read_field(line, "message", dict)
    role = _read_field(message, "role", str)
    if role not in ROLES.get(kind, (role,)) or len(role) > MAX_ROLE_LENGTH:
        raise BadLine(f"the role of a {line['type']} cannot be {_shorten(role)}")
    content = _read_field(message, "content", list)
    for block in content:
        _check_block(block)
    if kind == "tool_result":
        _read_field(message, "toolCallId", str)
        _read_field(message, "toolName", str)
    return JsonlEntry(
        kind=kind,
        id=entry_id,
        moment=_parse_datetime(line.get("timestamp"), "timestamp"),
        role=role,
        content=content,
        text=_read_field(line, "text", str, extract_text(content)),
        meta={name: value for name, value in message.items() if name not in NON_META_FIELDS},
        generation=_parse_generation(line),
        run_id=_read_field(line, "runId", str, "") or None,
    )


def _check_block(block: object) -> None:
    if not isinstance(block, dict):
        raise BadLine("content has a block that is not an object")
    kind = _read_field(block, "type", str)
    for name, expected in BLOCK_FIELDS.get(kind, {}).items():
        _read_field(block, name, expected)


def _parse_generation(line: dict[str, Any]) -> int:
    number: int = _read_field(line, "generation", int, 1)
    if number < 1:
        raise BadLine(f"generation is {number}; it must be at least 1")
    return number


def _read_field(line: dict[str, Any], name: str, expected: type, default: Any = None) -> Any:
    """Read a field of the line. Without a default it is required; booleans don't count as numbers."""
    if name not in line and default is not None:
        return default
    value = line.get(name)
    if not isinstance(value, expected) or isinstance(value, bool):
        raise BadLine(f"{name} must be {TYPE_LABELS[expected]}" if name in line else f"{name} is missing")
    return value


def _parse_datetime(value: object, name: str) -> dt.datetime:
    try:
        moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else None
        if moment is not None and moment.tzinfo:
            return moment.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        pass
    raise BadLine(f"{name} is {_shorten(value)}; it must be a timestamp with a time zone, such as 2026-02-01T10:15:00Z")


def _format_datetime(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
