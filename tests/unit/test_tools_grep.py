"""grep: finds lines, stays inside the workspace, and no expression can block the calling process."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.unit.test_tools_fs import RULES
from tools_app.authorize import authorize_tool_call
from tools_app.builtin.files import grep
from tools_app.core.definition import CallContext, CallRef, ToolEnv, ToolResult
from tools_app.execute import perform_call
from tools_app.policy.query import PolicyQuery
from tools_app.sources.registry import ToolRegistry
from tools_app.toolset import build_toolset

HOPELESS = r"^(a+)+$"  # matching time doubles with each further a in a line that doesn't match


@pytest.fixture
def use(tmp_path: Path):
    toolset = build_toolset(
        ToolEnv(tmp_path, "main", 1, "s", "k"), PolicyQuery("main"), RULES, ToolRegistry.build([(grep.make_grep, "")])
    )

    async def use(**arguments) -> ToolResult:
        permit = authorize_tool_call(CallRef("c1", "grep", arguments), toolset=toolset, rules=RULES).permit
        return await perform_call(permit, CallContext("c1", lambda partial: None, asyncio.Event()))

    return use


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.txt").write_text("first\nSecond line\nthird: été\n")
    (tmp_path / "src/b.py").write_text("def first():\n    pass\n")
    (tmp_path / "src/data.bin").write_bytes(b"first\0")
    (tmp_path / ".git/config").write_text("first")
    (tmp_path / "latin").write_bytes(b"caf\xe9 first\n")
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "linked").symlink_to("/etc")
    os.mkfifo(tmp_path / "fifo")
    return tmp_path


@pytest.fixture
def started(monkeypatch):
    """Set when a search has started; `options` are those it was started with, `worker` is its process."""
    event, start = asyncio.Event(), asyncio.create_subprocess_exec

    async def watched(*args, **options):
        worker = await start(*args, **options)
        event.options, event.worker = options, worker
        event.set()
        return worker

    monkeypatch.setattr(asyncio, "create_subprocess_exec", watched)
    return event


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"pattern": "first"}, ["a.txt:1: first", "latin:1: caf\ufffd first", "src/b.py:1: def first():"]),
        ({"pattern": "^first$"}, ["a.txt:1: first"]),
        ({"pattern": "second", "ignore_case": True}, ["a.txt:2: Second line"]),
        ({"pattern": "second"}, ["no line matches"]),
        ({"pattern": "été"}, ["a.txt:3: third: été"]),
        ({"pattern": "first", "include": "*.py"}, ["src/b.py:1: def first():"]),
        ({"pattern": "first", "include": "src/**/*"}, ["src/b.py:1: def first():"]),
        ({"pattern": "first", "include": "*.{txt,md}"}, ["a.txt:1: first"]),
        ({"pattern": "first", "path": "src"}, ["src/b.py:1: def first():"]),
        ({"pattern": "first", "path": "src/b.py"}, ["src/b.py:1: def first():"]),
        ({"pattern": "root"}, ["no line matches"]),
    ],
)
async def test_grep_searches_text_files_only(use, arguments, lines):
    result = await use(**arguments)
    assert not result.is_error
    assert result.text.split("\n") == lines
    assert result.details["complete"] is True


async def test_grep_stops_at_limit_and_reports_it(use, files):
    (files / "many").write_text("hit\n" * 10)
    result = await use(pattern="hit", max_matches=3)
    assert result.text.split("\n") == [
        "many:1: hit",
        "many:2: hit",
        "many:3: hit",
        "[the first 3 matches; narrow the search to see others]",
    ]
    assert "[" not in (await use(pattern="hit", max_matches=10)).text


async def test_long_grep_result_is_truncated_around_match(use, files):
    (files / "long").write_text("x" * 5000 + "needle" + "y" * 5000)
    result = await use(pattern="needle")
    assert "needle" in result.text
    assert len(result.text) < 320


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pattern": "("}, "not a valid regular expression"),
        ({"pattern": ""}, "1 to 2000"),
        ({"pattern": "x" * 2001}, "1 to 2000"),
        ({"pattern": "x", "path": "../.."}, "outside the workspace"),
        ({"pattern": "x", "path": "link"}, "symbolic link"),
        ({"pattern": "x", "path": "linked"}, "symbolic link"),
        ({"pattern": "x", "path": "no"}, "does not exist"),
        ({"pattern": "x", "include": "../*"}, "`..` is not allowed"),
    ],
)
async def test_invalid_search_is_reported(use, arguments, words):
    result = await use(**arguments)
    assert result.is_error
    assert words in result.text


async def test_runaway_expression_is_stopped_and_matches_are_returned(use, files, started, monkeypatch):
    monkeypatch.setattr(grep, "TIMEOUT_S", 1.0)
    (files / "a.txt").write_text("aaa\n" + "a" * 60 + "!\n")
    result = await use(pattern=HOPELESS)
    assert result.text == "a.txt:1: aaa\n[stopped after 1 s; use a simpler pattern or a narrower path]"
    assert started.worker.returncode is not None  # ended and reaped


async def test_cancelling_kills_runaway_search(use, files, started):
    (files / "a.txt").write_text("a" * 60 + "!\n")
    search = asyncio.create_task(use(pattern=HOPELESS))
    await started.wait()
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search
    assert started.worker.returncode is not None  # ended and reaped


async def test_expression_using_too_much_memory_only_ends_search(use, files, started):
    (files / "a.txt").write_text("a" * 9_000_000)
    result = await use(pattern=r"(?:(a)|b)*c|(?:a|(b))*d", path="a.txt")
    assert (result.is_error, result.text.split(":")[0]) == (True, "the search failed")
    assert started.worker.returncode is not None  # ended and reaped


async def test_search_process_has_empty_environment(use, started):
    assert not (await use(pattern="first")).is_error
    assert started.options["env"] == {}
