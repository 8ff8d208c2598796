"""Searching notes: in any script, only the owner's, and with the files' current content. On the database of this run."""

import asyncio
import json
import os
import threading
from pathlib import Path

import pytest
from django.db import connection

from agents.memory import index as memory_index
from agents.memory import notes
from agents.memory.table import TABLE
from agents.models import MemoryChunk, MemoryFile
from clawsite.infra import sql
from tests.harness.tools import RULES, call_tool, make_tool_env
from tools_app.builtin.files.workspace import Workspace
from tools_app.policy.query import PolicyQuery
from tools_app.sources import registry
from tools_app.toolset import build_toolset

pytestmark = pytest.mark.dialect

LONG_AGO = 1_700_000_000


def write(root: Path, path: str, text: str | bytes, *, at: float = LONG_AGO) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    os.utime(file, (at, at))


@pytest.fixture
def search(user, make_session, tmp_path):
    """search(query, root=tmp_path, …) -> the result of memory_search."""
    session = make_session(user)

    async def search(query: str, root: Path = tmp_path, **options) -> dict:
        result = await call_tool(make_tool_env(session, workspace=root), "memory_search", query=query, **options)
        assert not result.is_error, result.text
        assert json.loads(result.text) == result.details
        return result.details

    return search


@pytest.fixture
def get(user, make_session, tmp_path):
    session = make_session(user)

    async def get(path: str, **options):
        return await call_tool(make_tool_env(session, workspace=tmp_path), "memory_get", path=path, **options)

    return get


def paths(answer: dict) -> list[str]:
    return [each["path"] for each in answer["results"]]


async def test_search_result_has_range_score_and_source(search, tmp_path):
    write(tmp_path, "MEMORY.md", "# About\n\nThe lobster sleeps under the desk.\n")
    write(tmp_path, "memory/2026-02-01.md", "We met at noon.\n")
    (hit,) = (await search("lobster"))["results"]
    assert hit == {
        "path": "MEMORY.md",
        "startLine": 1,
        "endLine": 3,
        "score": 1.0,
        "snippet": "# About\n\nThe lobster sleeps under the desk.",
        "source": "memory",
    }


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("where does the lobster sleep?", "en.md"),
        ("LOBSTER", "en.md"),
        ("creme", "fr.md"),
        ("東京", "ja.md"),
        ("東京都はどこですか", "ja.md"),
        ("我们关于预算的决定是什么", "zh.md"),
        ("预算", "zh.md"),
        ("서울", "ko.md"),
        ("水", "water.md"),
        ("नमस्ते", "hi.md"),
    ],
)
async def test_search_finds_notes_in_any_script(search, tmp_path, query, found):
    texts = {
        "en": "The lobster sleeps under the desk",
        "fr": "un café crème",
        "ja": "東京都に行く",
        "zh": "会议记录：预算定为五万",
        "ko": "서울에서 만나요",
        "water": "水",
        "hi": "नमस्ते दुनिया",
    }
    for name, text in texts.items():
        write(tmp_path, f"memory/{name}.md", text)
    assert paths(await search(query))[0] == f"memory/{found}"


@pytest.mark.parametrize(
    "query", ['" OR "1', "lobster' | 'x", "NEAR(a b)", "words:lobster", "(", "\\", ":*", "a & !b", "--", "\ue000w"]
)
async def test_special_characters_in_query_are_ignored(search, tmp_path, query):
    write(tmp_path, "MEMORY.md", "nothing of it")
    assert paths(await search(query)) in ([], ["MEMORY.md"])


async def test_better_matches_rank_first_and_limits_apply(search, tmp_path):
    for number in range(10):
        write(tmp_path, f"memory/{number}.md", "lobster budget" if number == 7 else "lobster")
    answer = await search("lobster budget", max_results=3)
    assert paths(answer)[0] == "memory/7.md"
    assert len(answer["results"]) == 3
    assert paths(await search("lobster budget", min_score=1)) == ["memory/7.md"]


async def test_adjacent_characters_rank_above_separated_ones(search, tmp_path):
    write(tmp_path, "memory/apart.md", "京都東京")
    write(tmp_path, "memory/together.md", "東京都")
    assert paths(await search("東京都")) == ["memory/together.md", "memory/apart.md"]


async def test_index_follows_changed_and_deleted_notes(search, tmp_path):
    write(tmp_path, "MEMORY.md", "lobster")
    write(tmp_path, "memory/a.md", "lobster too")
    assert len(paths(await search("lobster"))) == 2
    write(tmp_path, "MEMORY.md", "zebra")
    (tmp_path / "memory/a.md").unlink()
    assert paths(await search("lobster")) == []
    assert paths(await search("zebra")) == ["MEMORY.md"]
    assert MemoryFile.objects.count() == MemoryChunk.objects.count() == 1
    assert sql.fetch_row(f"SELECT count(*) FROM {TABLE.name}") == (1,)


async def test_change_with_same_mtime_is_detected(search, tmp_path):
    (tmp_path / "MEMORY.md").write_text("lobster")
    seen = os.stat(tmp_path / "MEMORY.md")
    assert paths(await search("lobster")) == ["MEMORY.md"]
    (tmp_path / "MEMORY.md").write_text("octopus")
    os.utime(tmp_path / "MEMORY.md", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert paths(await search("lobster")) == []
    assert paths(await search("octopus")) == ["MEMORY.md"]


async def test_only_changed_notes_are_reindexed(search, tmp_path, monkeypatch):
    read, original = [], notes.read_note
    monkeypatch.setattr(notes, "read_note", lambda files, path: read.append(path) or original(files, path))
    write(tmp_path, "MEMORY.md", "lobster")
    write(tmp_path, "memory/a.md", "lobster")
    await search("lobster")
    assert sorted(read) == ["MEMORY.md", "memory/a.md"]
    read.clear()
    await search("lobster")
    assert read == []
    write(tmp_path, "memory/a.md", "zebra", at=LONG_AGO + 5)
    await search("lobster")
    assert read == ["memory/a.md"]


async def test_search_is_limited_to_its_workspace(search, tmp_path):
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    write(mine, "MEMORY.md", "my lobster")
    write(theirs, "MEMORY.md", "their lobster")
    assert [each["snippet"] for each in (await search("lobster", mine))["results"]] == ["my lobster"]
    assert [each["snippet"] for each in (await search("lobster", theirs))["results"]] == ["their lobster"]
    (tmp_path / "link").symlink_to(mine)
    assert [each["snippet"] for each in (await search("lobster", tmp_path / "link"))["results"]] == ["my lobster"]
    assert MemoryFile.objects.count() == 2


async def test_search_reports_skipped_files(search, tmp_path, monkeypatch):
    write(tmp_path, "MEMORY.md", "lobster")
    write(tmp_path, "memory/latin.md", b"caf\xe9")
    for number in range(12):
        write(tmp_path, f"memory/big{number:02}.md", b"x" * (1024 * 1024 + 1))
    for _ in range(2):  # also if only the index still has it
        answer = await search("lobster")
        assert answer["searched"] == 1
        assert answer["leftOut"][0] == "memory/big00.md has 1048577 bytes; the limit is 1048576"
        assert answer["leftOut"][-1] == "and 3 more"
    for number in range(12):
        (tmp_path / f"memory/big{number:02}.md").unlink()
    assert (await search("lobster"))["leftOut"] == ["memory/latin.md is not UTF-8 text"]


async def test_search_without_notes_explains_how_to_add_them(search, tmp_path):
    answer = await search("lobster")
    assert (answer["results"], answer["searched"]) == ([], 0)
    assert "MEMORY.md" in answer["note"]


async def test_concurrent_searches_do_not_interfere(search, tmp_path):
    for number in range(8):
        write(tmp_path, f"memory/{number}.md", f"lobster {number}")

    async def change() -> None:
        for turn in range(5):
            write(tmp_path, "memory/0.md", f"zebra {turn}", at=LONG_AGO + turn)
            await asyncio.sleep(0)

    answers = await asyncio.gather(*(search("lobster", max_results=20) for _ in range(10)), change())
    assert all(len(answer["results"]) in (7, 8) for answer in answers[:-1])
    await search("zebra")
    assert paths(await search("zebra")) == ["memory/0.md"]
    assert MemoryFile.objects.count() == MemoryChunk.objects.count() == 8


@pytest.mark.usefixtures("database")
def test_concurrent_indexing_stores_note_once(tmp_path):
    for path in ("memory/a.md", "memory/b.md"):
        write(tmp_path, path, "lobster\n" * 500)
    files, begin = Workspace(tmp_path), threading.Barrier(2)
    faults: list[BaseException] = []

    def store() -> None:
        try:
            begin.wait()
            for path in ("memory/a.md", "memory/b.md"):
                note = notes.read_note(files, path)
                assert note is not None
                memory_index.store_note("w", path, note)
        except BaseException as fault:
            faults.append(fault)
        finally:
            connection.close()

    threads = [threading.Thread(target=store) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    pieces = len(notes.split_chunks("lobster\n" * 500))
    assert (MemoryFile.objects.count(), MemoryChunk.objects.count()) == (2, 2 * pieces)
    assert sql.fetch_row(f"SELECT count(*) FROM {TABLE.name}") == (2 * pieces,)


async def test_oversized_search_result_is_truncated_with_notice(search, tmp_path):
    for number in range(50):
        write(tmp_path, f"memory/{number}.md", "水" * 500 + f" {number}")
    answer = await search("水", max_results=50)
    assert 0 < len(answer["results"]) < 50
    assert answer["cut"] == f"{50 - len(answer['results'])} more results did not fit: ask for fewer, or more precisely"


async def test_common_term_does_not_hide_rare_term(search, tmp_path, monkeypatch):
    monkeypatch.setattr(memory_index, "MAX_CANDIDATES", 5)
    write(tmp_path, "memory/00.md", "the lobster")
    for number in range(1, 30):
        write(tmp_path, f"memory/{number:02}.md", "the the the")
    assert paths(await search("the lobster", max_results=1)) == ["memory/00.md"]


async def test_get_returns_requested_range_and_next_position(get, tmp_path):
    write(tmp_path, "memory/a.md", "".join(f"line {number}\n" for number in range(1, 11)))
    shown = (await get("memory/a.md", from_line=3, lines=2)).details
    assert shown == {
        "path": "memory/a.md",
        "text": "line 3\nline 4",
        "startLine": 3,
        "endLine": 4,
        "totalLines": 10,
        "cut": "continue with from_line 5",
    }
    assert "cut" not in (await get("./memory/../memory/a.md")).details


async def test_long_note_is_truncated_with_notice(get, tmp_path):
    write(tmp_path, "MEMORY.md", ("水" * 9_000 + "\n") * 20)
    result = await get("MEMORY.md")
    assert result.details["cut"] == "lines longer than 8000 characters are cut; continue with from_line 2"
    assert json.loads(result.text) == result.details


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("notes.md", "is not a note"),
        ("memory/a.txt", "is not a note"),
        ("memory", "is not a note"),
        ("../MEMORY.md", "outside the workspace"),
        ("memory/../../x/MEMORY.md", "outside the workspace"),
        ("memory/link.md", "symbolic link"),
        ("memory/none.md", "does not exist"),
        ("memory/latin.md", "not UTF-8"),
        ("/etc/passwd", "outside the workspace"),
    ],
)
async def test_get_rejects_files_that_are_not_notes(get, tmp_path, path, words):
    write(tmp_path, "notes.md", "x")
    write(tmp_path, "memory/a.txt", "x")
    write(tmp_path, "memory/latin.md", b"caf\xe9")
    (tmp_path / "memory/link.md").symlink_to("/etc/passwd")
    result = await get(path)
    assert result.is_error
    assert words in result.text


async def test_get_past_end_of_note_is_rejected(get, tmp_path):
    write(tmp_path, "MEMORY.md", "one")
    assert (await get("MEMORY.md", from_line=2)).text == "`MEMORY.md` has 1 lines; line 2 does not exist"


def test_memory_tools_are_unavailable_without_workspace():
    from agents.tools.memory import make_memory_get, make_memory_search
    from tools_app.core.definition import ToolEnv, ToolUnavailable

    for factory in (make_memory_search, make_memory_get):
        with pytest.raises(ToolUnavailable) as unavailable:
            factory.create(ToolEnv(None, "main", 1, "s", "k"))
        assert unavailable.value.reason.code == "tool.no_workspace"


async def test_guest_cannot_access_session_owners_notes(user, make_user, make_session, tmp_path):
    write(tmp_path, "MEMORY.md", "salary: 100")
    theirs = make_tool_env(make_session(user), workspace=tmp_path, sender=make_user())
    toolset = build_toolset(theirs, PolicyQuery("main"), RULES, registry.load_installed())
    assert "read" in toolset.tools
    assert {toolset.unavailable[name].code for name in ("memory_search", "memory_get")} == {"tool.notes_of_owner"}
