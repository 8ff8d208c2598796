"""The tools read, write, edit and glob as the model uses them: through authorization, with their messages."""

import asyncio
import os
from pathlib import Path

import pytest

from tools_app.authorize import authorize_tool_call
from tools_app.builtin.files import read_write
from tools_app.builtin.files.patterns import BadPattern, FilePattern, matches_file
from tools_app.core.definition import CallContext, CallRef, ToolEnv, ToolResult
from tools_app.execute import perform_call
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.sources.registry import ToolRegistry
from tools_app.toolset import build_toolset

RULES = PolicyRules(1, (RuleRow("global", profile="coding"),))
FILES = ToolRegistry.build(
    [(factory, "") for factory in (read_write.make_read, read_write.make_write, read_write.make_edit, read_write.make_glob)]
)


@pytest.fixture
def use(tmp_path: Path):
    toolset = build_toolset(ToolEnv(tmp_path, "main", 1, "s", "k"), PolicyQuery("main"), RULES, FILES)

    async def use(name: str, **arguments) -> ToolResult:
        permit = authorize_tool_call(CallRef("c1", name, arguments), toolset=toolset, rules=RULES).permit
        return await perform_call(permit, CallContext("c1", lambda partial: None, asyncio.Event()))

    return use


async def test_file_is_written_read_and_edited(use):
    written = await use("write", path="notes/todo.txt", content="one\ntwo\n")
    assert (written.text, written.is_error) == ("created `notes/todo.txt` (8 bytes)", False)
    assert (await use("read", path="notes/todo.txt")).text == "one\ntwo"
    assert (
        await use("edit", path="notes/todo.txt", old_text="two", new_text="three")
    ).text == "replaced 1 occurrence in `notes/todo.txt`"
    assert (await use("read", path="notes/todo.txt")).text == "one\nthree"
    assert (await use("write", path="notes/todo.txt", content="")).text.startswith("replaced")


async def test_read_shows_requested_lines_and_next_offset(use, tmp_path):
    (tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    part = await use("read", path="log", offset=3, limit=2)
    assert part.text == "line 3\nline 4\n[lines 3 to 4 of 10; continue with offset 5]"
    assert part.details == {"path": "log", "lines": 10, "first": 3, "last": 4}
    assert (await use("read", path="log", offset=10)).text == "line 10"
    beyond = await use("read", path="log", offset=11)
    assert (beyond.is_error, beyond.text) == (True, "`log` has 10 lines; line 11 does not exist")


async def test_read_stops_at_50_kb_on_a_whole_line(use, tmp_path):
    (tmp_path / "big").write_text(("x" * 1023 + "\n") * 100)
    result = await use("read", path="big")
    assert result.text.endswith("\n[lines 1 to 50 of 100; continue with offset 51]")
    assert result.details["last"] == 50


async def test_read_truncates_line_longer_than_result_limit(use, tmp_path):
    (tmp_path / "long").write_text("é" * 60_000 + "\nnext")
    result = await use("read", path="long")
    assert "[line 1 has 60000 characters, truncated here]\n[lines 1 to 1 of 2; continue with offset 2]" in result.text
    assert len(result.text.encode()) < 52 * 1024


async def test_read_shows_an_empty_file_as_empty(use, tmp_path):
    (tmp_path / "empty").touch()
    assert await use("read", path="empty") == ToolResult(
        (read_write.text_result("").content), {"path": "empty", "lines": 1, "first": 1, "last": 1}
    )


@pytest.mark.parametrize(("content", "words"), [(b"PNG\0\1", "is a binary file of 5 bytes"), (b"caf\xe9", "is not UTF-8")])
async def test_read_rejects_binary_and_non_utf8_files(use, tmp_path, content, words):
    (tmp_path / "file").write_bytes(content)
    for result in (await use("read", path="file"), await use("edit", path="file", old_text="c", new_text="d")):
        assert result.is_error
        assert words in result.text
    assert (tmp_path / "file").read_bytes() == content


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"old_text": "x", "new_text": "y"}, "was not found in `f`"),
        ({"old_text": "a", "new_text": "b"}, "occurs 3 times in `f`"),
        ({"old_text": "", "new_text": "b"}, "old_text is empty"),
        ({"old_text": "a", "new_text": "a"}, "nothing would change"),
        ({"old_text": "c", "new_text": "\ud800"}, "surrogate"),
    ],
)
async def test_ambiguous_edit_is_rejected_with_explanation(use, tmp_path, change, words):
    (tmp_path / "f").write_text("a a a c")
    result = await use("edit", path="f", **change)
    assert result.is_error
    assert words in result.text
    assert (tmp_path / "f").read_text() == "a a a c"


async def test_edit_replaces_all_occurrences_with_replace_all(use, tmp_path):
    (tmp_path / "f").write_text("a a a c")
    assert (await use("edit", path="f", old_text="a", new_text="b", replace_all=True)).text == "replaced 3 occurrences in `f`"
    assert (tmp_path / "f").read_text() == "b b b c"


async def test_edit_preserves_windows_line_endings(use, tmp_path):
    (tmp_path / "f").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    assert (await use("read", path="f")).text == "one\ntwo\nthree\n"
    assert not (await use("edit", path="f", old_text="one\ntwo", new_text="1\n2")).is_error
    assert (tmp_path / "f").read_bytes() == b"1\r\n2\r\nthree\r\n"


@pytest.mark.parametrize("name", ["read", "edit", "write"])
async def test_path_outside_workspace_is_reported_to_model(use, name):
    arguments = {"read": {}, "edit": {"old_text": "a", "new_text": "b"}, "write": {"content": "x"}}[name]
    result = await use(name, path="../../etc/passwd", **arguments)
    assert (result.is_error, result.text) == (True, "`../../etc/passwd` is outside the workspace")


@pytest.fixture
def some_files(tmp_path: Path) -> Path:
    for path in ("a.py", "b.md", "src/c.py", "src/deep/d.py", "src/deep/e.html", ".hidden/f.py", ".git/config", "src/.git/x.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "fifo.py")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"pattern": "**/*"}, [".hidden/f.py", "a.py", "b.md", "src/c.py", "src/deep/d.py", "src/deep/e.html"]),
        ({"pattern": "*.py"}, ["a.py"]),
        ({"pattern": "**/*.py"}, [".hidden/f.py", "a.py", "src/c.py", "src/deep/d.py"]),
        ({"pattern": "**/*.{py,html}", "path": "src"}, ["src/c.py", "src/deep/d.py", "src/deep/e.html"]),
        ({"pattern": "src/*/?.py"}, ["src/deep/d.py"]),
        ({"pattern": "[ab].*"}, ["a.py", "b.md"]),
        ({"pattern": "src/**"}, ["src/c.py", "src/deep/d.py", "src/deep/e.html"]),
    ],
)
async def test_glob_skips_links_special_files_and_git(use, some_files, arguments, found):
    result = await use("glob", **arguments)
    assert result.text.split("\n") == found
    assert result.details == {"count": len(found), "more": False}


async def test_glob_reports_empty_and_truncated_results(use, some_files):
    assert (await use("glob", pattern="*.rs")).text == "no files match"
    cut = await use("glob", pattern="**/*", limit=2)
    assert cut.text == ".hidden/f.py\na.py\n[2 files are listed; there may be more: narrow the pattern or the path]"


async def test_glob_stops_in_huge_tree_and_reports_it(use, some_files, monkeypatch):
    monkeypatch.setattr(read_write, "MAX_WALKED", 3)
    assert "there may be more" in (await use("glob", pattern="**/*")).text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"pattern": "../*"}, "`..` is not allowed"),
        ({"pattern": "/etc/*"}, "omit the leading /"),
        ({"pattern": ""}, "Missing required parameter: pattern"),
        ({"pattern": "*", "path": "../.."}, "outside the workspace"),
        ({"pattern": "*", "path": "link"}, "symbolic link"),
        ({"pattern": "*", "path": "a.py"}, "part of the path is a file"),
        ({"pattern": "*", "path": "no"}, "does not exist"),
        ({"pattern": "{a,b}" * 7}, "more than 64"),
    ],
)
async def test_glob_rejects_paths_outside_and_invalid_patterns(use, some_files, arguments, words):
    result = await use("glob", **arguments)
    assert result.is_error
    assert words in result.text


async def test_very_deep_tree_does_not_exhaust_descriptors(use, tmp_path):
    top = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):  # one name at a time: the whole path would be too long for one call
        os.mkdir("d", dir_fd=top)
        below = os.open("d", os.O_RDONLY, dir_fd=top)
        os.close(top)
        top = below
    os.close(os.open("bottom", os.O_CREAT, dir_fd=top))
    os.close(top)
    assert (await use("glob", pattern="**/bottom")).details == {"count": 0, "more": True}


def test_hostile_pattern_is_matched_quickly():
    assert not matches_file(FilePattern("**/" * 50 + "*a" * 100 + "b"), "/".join(["a" * 200] * 60))
    with pytest.raises(BadPattern):
        FilePattern("{a,{b,{c" * 200)
