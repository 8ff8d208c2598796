"""Transcripts as JSON lines: written ones can be read again, and errors name their line."""

import datetime as dt
import io
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clawsite.infra.errors import InvalidRequest
from clawsite.infra.text import make_storable
from sessions_app.sessions import jsonl
from sessions_app.sessions.jsonl import (
    NON_META_FIELDS,
    JsonlEntry,
    TranscriptHeader,
    extract_text,
    format_entry,
    format_header,
    read_lines,
    read_transcript,
)

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
names = words.filter(lambda name: make_storable(name) not in NON_META_FIELDS)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
blocks = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": words}),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": words}),
    st.fixed_dictionaries(
        {"type": st.just("toolCall"), "id": words, "name": words, "arguments": st.dictionaries(words, values, max_size=3)}
    ),
    st.fixed_dictionaries({"type": st.just("image"), "data": words}),
)
KINDS_AND_ROLES = [
    ("message", "user"),
    ("message", "assistant"),
    ("tool_result", "toolResult"),
    ("compaction", ""),
    ("session", "x"),
]


@st.composite
def transcripts(draw):
    generation = draw(st.integers(1, 3))
    entries = []
    for number in range(draw(st.integers(0, 6))):
        kind, role = draw(st.sampled_from(KINDS_AND_ROLES))
        content = draw(st.lists(blocks, max_size=3))
        meta = draw(st.dictionaries(names, values, max_size=3))
        if kind == "tool_result":
            meta |= {"toolCallId": draw(words), "toolName": draw(words)}
        text = draw(words | st.just(extract_text(content)))
        moment = draw(st.datetimes(timezones=st.just(dt.UTC)))
        at = draw(st.integers(entries[-1].generation if entries else 1, generation))
        entries.append(JsonlEntry(kind, f"id-{number}", moment, role, content, text, meta, at, draw(st.none() | st.just("run-1"))))
    header = TranscriptHeader(
        "agent:main:x", "main", "uuid", draw(st.none() | st.datetimes(timezones=st.just(dt.UTC))), draw(words), generation
    )
    return header, entries


def written(header, entries):
    parents = [None, *(entry.id for entry in entries)]
    return [format_header(header), *(format_entry(entry, parent) for entry, parent in zip(entries, parents, strict=False))]


def clean(entry):
    """NUL characters are excluded: no supported database stores them."""
    changed = {name: make_storable(getattr(entry, name)) for name in ("content", "text", "meta")}
    return JsonlEntry(entry.kind, entry.id, entry.moment, entry.role, **changed, generation=entry.generation, run_id=entry.run_id)


@given(transcripts())
@example(
    (
        TranscriptHeader(title="a\0b"),
        [JsonlEntry("message", "1", dt.datetime(2026, 2, 1, tzinfo=dt.UTC), "user", [], "", {"a\0": "\0"})],
    )
)
@settings(max_examples=200, deadline=None)
def test_transcript_round_trips(transcript):
    header, entries = transcript
    lines = written(header, entries)
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    again, read = read_transcript(read_lines(io.BytesIO(b"".join(lines))))
    assert (again, list(read)) == (
        TranscriptHeader(
            header.key, header.agent, header.session_id, header.created_at, make_storable(header.title), header.generation
        ),
        [clean(entry) for entry in entries],
    )


HEADER = {"type": "session", "version": 1, "generation": 2}
SAID = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
FIRST = {"type": "message", "id": "a", "parentId": None, "timestamp": "2026-02-01T10:15:00Z", "message": SAID}
SECOND = {**FIRST, "id": "b", "parentId": "a"}


def read(*lines):
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    header, entries = read_transcript(read_lines(io.BytesIO(b"\n".join(raw))))
    return header, list(entries)


def result(**message):
    return {**SECOND, "type": "toolResult", "message": {"role": "toolResult", "content": [], **message}}


def saying(*content, role="assistant"):
    return {**SECOND, "message": {"role": role, "content": list(content)}}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"type": "message",', "not JSON"),
        (b'{"a": "\xff"}', "not JSON"),
        (b'{"a": NaN}', "not JSON"),
        (b"[]", "not a JSON object"),
        ({**SECOND, "x": json.loads("[" * 300 + "]" * 300)}, "nested too deeply"),
        ({**SECOND, "type": "branch_summary"}, "type is 'branch_summary'"),
        ({**SECOND, "type": None}, "type must be a string"),
        ({**SECOND, "id": "x" * 33}, "id is"),
        ({**SECOND, "id": "a b"}, "id is 'a b'"),
        ({**SECOND, "id": "a"}, "duplicate id"),
        ({**SECOND, "parentId": "z"}, "parentId is 'z'; it must be 'a'"),
        ({**SECOND, "parentId": None}, "parentId is None; it must be 'a'"),
        ({**SECOND, "timestamp": 1769940900000}, "timestamp is 1769940900000"),
        ({**SECOND, "timestamp": "2026-02-01T10:15:00"}, "a timestamp with a time zone"),
        ({**SECOND, "timestamp": "0001-01-01T00:00:00+10:00"}, "a timestamp with a time zone"),
        ({**SECOND, "generation": 0}, "generation is 0"),
        ({**SECOND, "generation": True}, "generation must be a whole number"),
        ({**SECOND, "generation": 3}, "higher than the session's"),
        ({**SECOND, "message": "hello"}, "message must be an object"),
        ({**SECOND, "message": {"role": "user"}}, "content is missing"),
        ({**SECOND, "message": {"role": "user", "content": "hello"}}, "content must be a list"),
        ({**SECOND, "message": {"content": []}}, "role is missing"),
        ({**SECOND, "text": 5}, "text must be a string"),
        ({**SECOND, "type": "compaction", "message": {"role": "r" * 17, "content": []}}, "role of a compaction"),
        (saying(role="toolResult"), "the role of a message cannot be 'toolResult'"),
        (saying(role="system"), "the role of a message cannot be 'system'"),
        (saying("hello"), "a block that is not an object"),
        (saying({"text": "hello"}), "type is missing"),
        (saying({"type": "text"}), "text is missing"),
        (saying({"type": "thinking", "thinking": None}), "thinking must be a string"),
        (saying({"type": "toolCall", "id": "c", "name": "exec", "arguments": "ls"}), "arguments must be an object"),
        (result(toolName="exec"), "toolCallId is missing"),
        (result(toolCallId="c"), "toolName is missing"),
    ],
)
def test_invalid_entry_error_includes_its_position(line, words):
    with pytest.raises(InvalidRequest) as refused:
        read(HEADER, FIRST, line)
    assert refused.value.message.startswith("line 3: ")
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "the first line must describe the session|not JSON"),
        (FIRST, "the first line must describe the session"),
        ({"type": "session"}, "the first line must describe the session"),
        ({"type": "session", "version": 3}, "unsupported version 3"),
        ({"type": "session", "version": "1"}, "version must be a whole number"),
        ({**HEADER, "createdAt": "yesterday"}, "createdAt is 'yesterday'"),
        ({**HEADER, "title": ["x"]}, "title must be a string"),
    ],
)
def test_file_must_start_with_session_header(line, words):
    with pytest.raises(InvalidRequest, match=f"^line 1: ({words})"):
        read(line)


def test_decreasing_generation_is_rejected():
    with pytest.raises(InvalidRequest, match="line 3: generation 1 follows a higher one"):
        read(HEADER, {**FIRST, "generation": 2}, SECOND)


def test_minimal_third_party_file_is_accepted():
    header, entries = read({"type": "session", "version": 1}, FIRST, b"", SECOND, b"  ")
    assert header == TranscriptHeader()
    assert [(entry.id, entry.text, entry.generation, entry.meta) for entry in entries] == [
        ("a", "hello", 1, {}),
        ("b", "hello", 1, {}),
    ]


def test_run_fields_of_imported_message_are_dropped():
    _, [entry] = read(HEADER, {**FIRST, "message": {**SAID, "runId": "r", "messageId": "m", "timestamp": 5, "model": "gpt"}})
    assert entry.meta == {"model": "gpt"}


def test_entry_over_eight_mebibytes_is_rejected():
    def padded(size):
        bare = len(json.dumps({**FIRST, "x": ""}))
        return json.dumps({**FIRST, "x": "y" * (size - bare)}).encode()

    assert len(read(HEADER, padded(8 << 20), SECOND)[1]) == 2
    with pytest.raises(InvalidRequest, match="^line 2: longer than 8,388,608 bytes"):
        read(HEADER, padded((8 << 20) + 1), SECOND)


def test_endless_entry_is_not_read_completely():
    class Endless(io.RawIOBase):
        def readline(self, size=-1):
            assert 0 < size < 16 << 20
            return b"x" * size

    with pytest.raises(InvalidRequest, match="^line 1: longer"):
        list(read_lines(Endless()))


def test_number_of_entries_is_limited(monkeypatch):
    monkeypatch.setattr(jsonl, "MAX_LINES", 3)
    assert len(read(HEADER, FIRST, SECOND)[1]) == 2
    with pytest.raises(InvalidRequest, match="^line 4: a transcript can have at most 3 lines"):
        read(HEADER, FIRST, SECOND, b"", b"")
