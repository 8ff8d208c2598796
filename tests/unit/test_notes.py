"""An agent's notes as files: which are included, how they are read and split, and how chunks are scored."""

import os
from itertools import pairwise
from pathlib import Path

import pytest

from agents.memory import notes
from agents.memory.index import expand_terms, make_snippet, score_text
from agents.memory.notes import CHUNK_BYTES, OVERLAP_BYTES, list_notes, read_note, split_chunks
from clawsite.infra.fulltext.tokenizer import parse_query
from tools_app.builtin.files.workspace import Workspace

LONG_AGO = 1_700_000_000


def write(root: Path, path: str, text: str | bytes = "x", *, at: float = LONG_AGO) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(file, (at, at))
    return file


def test_notes_are_memory_md_and_files_under_memory(tmp_path):
    for path in ("MEMORY.md", "memory/2026-02-01.md", "memory/deep/er/x.md", "README.md", "memory/x.txt", "other/memory/y.md"):
        write(tmp_path, path)
    assert sorted(list_notes(Workspace(tmp_path)).stamps) == ["MEMORY.md", "memory/2026-02-01.md", "memory/deep/er/x.md"]


def test_symlinks_are_not_followed(tmp_path):
    outside = write(tmp_path, "outside/secret.md", "secret")
    home = tmp_path / "home"
    (home / "memory").mkdir(parents=True)
    (home / "memory/a.md").symlink_to(outside)
    (home / "memory/deep").symlink_to(outside.parent)
    (home / "MEMORY.md").symlink_to(outside)
    assert list_notes(Workspace(home)).stamps == {}
    assert read_note(Workspace(home), "memory/a.md") is None
    assert read_note(Workspace(home), "memory/deep/secret.md") is None


def test_skipped_notes_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(notes, "MAX_FILE_BYTES", 10)
    monkeypatch.setattr(notes, "MAX_FILES", 2)
    write(tmp_path, "MEMORY.md", "root", at=LONG_AGO - 1000)
    for day in range(1, 4):
        write(tmp_path, f"memory/{day}.md", at=LONG_AGO + day)
    write(tmp_path, "memory/big.md", "x" * 11)
    listing = list_notes(Workspace(tmp_path))
    assert list(listing.stamps) == ["MEMORY.md", "memory/3.md"]
    assert listing.left_out == [
        "memory/big.md has 11 bytes; the limit is 10",
        "the 2 oldest notes: only 2 are searched",
    ]


def test_non_utf8_file_name_is_skipped(tmp_path):
    (tmp_path / "memory").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/memory/\xff.md")).write_text("x")
    listing = list_notes(Workspace(tmp_path))
    assert listing.stamps == {}
    assert listing.left_out == ["memory/?.md has a name that is not UTF-8"]


def test_recently_changed_note_has_empty_stamp(tmp_path):
    write(tmp_path, "MEMORY.md", "old")
    settled = read_note(Workspace(tmp_path), "MEMORY.md")
    assert settled is not None and settled.stamp == list_notes(Workspace(tmp_path)).stamps["MEMORY.md"]
    (tmp_path / "MEMORY.md").write_text("new")
    fresh = read_note(Workspace(tmp_path), "MEMORY.md")
    assert fresh is not None and fresh.stamp == ""


@pytest.mark.parametrize("content", [b"caf\xe9", b"a\0b"])
def test_non_text_note_has_no_digest_or_chunks(tmp_path, content):
    write(tmp_path, "MEMORY.md", content)
    note = read_note(Workspace(tmp_path), "MEMORY.md")
    assert note is not None and (note.digest, note.chunks) == ("", [])


def test_short_text_is_one_chunk():
    assert split_chunks("one\r\ntwo\n") == [(1, 2, "one\ntwo")]
    assert split_chunks("") == split_chunks("\n \n") == []


def test_chunks_cover_whole_text_and_overlap():
    lines = [f"line {number} " + "x" * (number % 90) for number in range(1, 400)]
    pieces = split_chunks("\n".join(lines))
    assert len(pieces) > 5
    for piece in pieces:
        assert piece.text == "\n".join(lines[piece.start_line - 1 : piece.end_line])
        assert len(piece.text.encode()) <= CHUNK_BYTES
    for before, after in pairwise(pieces):
        shared = lines[after.start_line - 1 : before.end_line]
        assert shared
        assert len("\n".join(shared)) <= OVERLAP_BYTES
    assert (pieces[0].start_line, pieces[-1].end_line) == (1, 399)


@pytest.mark.parametrize("line", ["word " * 2000, "東京都に行く" * 600, "🦞" * 3000])
def test_long_text_without_newlines_splits_without_losing_terms(line):
    pieces = split_chunks(f"first\n{line}\nlast")
    assert len(pieces) > 3
    assert all(len(piece.text.encode()) <= CHUNK_BYTES for piece in pieces)
    assert (pieces[0].start_line, pieces[-1].end_line) == (1, 3)
    inner = [piece.text for piece in pieces if piece.start_line == piece.end_line == 2]
    assert inner and all(text in line for text in inner)
    for before, after in pairwise(inner):
        assert before.endswith(after[:20])


def test_file_of_newlines_is_chunked_quickly():
    assert split_chunks("\n" * 1_000_000 + "end")[-1].text.strip() == "end"


def score(query: str, text: str) -> float:
    return score_text(text, dict.fromkeys(expand_terms(parse_query(query)), 1.0))


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("lobster", "The Lobster sleeps", 1.0),
        ("lobster zebra", "The Lobster sleeps", 0.5),
        ("decide", "we decided it", 1.0),
        ("of", "often", 0.0),
        ("東京", "東京都に行く", 1.0),
        ("東京都の水", "東京都に行く", 0.5),
        ("我们的决定", "关于龙虾的决定", 0.5),
        ("水", "水曜日", 1.0),
        ("%", "100 %", 0.0),
    ],
)
def test_score_is_fraction_of_matching_terms(query, text, expected):
    assert score(query, text) == expected


def test_rare_term_weighs_more_than_common_term():
    rare, common = expand_terms(parse_query("lobster the"))
    weights = {rare: 3.0, common: 1.0}
    assert score_text("lobster", weights) == 0.75
    assert score_text("the", weights) == 0.25


def test_snippet_contains_match_and_starts_after_newline():
    text = "\n".join(f"line {number}" for number in range(200)) + "\nhere is the lobster\n" + "tail\n" * 20
    shown = make_snippet(text, parse_query("lobster"))
    assert len(shown) <= 700
    assert "here is the lobster" in shown
    assert shown.startswith("line ")
    assert make_snippet("short", parse_query("x")) == "short"
    assert len(make_snippet("東" * 2000 + "水", parse_query("水"))) == 700
