"""apply_patch: a patch applies as a whole; one that doesn't apply changes nothing and is explained."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools_app.authorize import authorize_tool_call
from tools_app.builtin.files import patch
from tools_app.builtin.files.patch_format import BadPatch, UpdateFile, apply_hunks, parse_patch
from tools_app.builtin.files.workspace import Workspace
from tools_app.core.definition import CallContext, CallRef, ToolEnv, ToolFailed, ToolResult
from tools_app.execute import perform_call
from tools_app.policy.query import PolicyQuery
from tools_app.policy.rules import PolicyRules, RuleRow
from tools_app.sources.registry import ToolRegistry
from tools_app.toolset import build_toolset

RULES = PolicyRules(1, (RuleRow("global", profile="coding"),))


def offered(root: Path, model: str):
    env = ToolEnv(root, "main", 1, "s", "k", model=model)
    return build_toolset(env, PolicyQuery("main"), RULES, ToolRegistry.build([(patch.make_apply_patch, "")]))


@pytest.fixture
def apply(tmp_path: Path):
    toolset = offered(tmp_path, "openai/gpt-5")

    async def apply(*lines: str) -> ToolResult:
        text = "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
        permit = authorize_tool_call(CallRef("c1", "apply_patch", {"input": text}), toolset=toolset, rules=RULES).permit
        return await perform_call(permit, CallContext("c1", lambda partial: None, asyncio.Event()))

    return apply


@pytest.mark.parametrize(
    ("model", "is_offered"),
    [
        ("openai/gpt-5", True),
        ("openai-codex/gpt-5-codex", True),
        ("openrouter/openai/gpt-5", True),
        ("anthropic/claude-opus-5", False),
        ("ollama/openai-like", False),
        ("", False),
    ],
)
def test_tool_is_available_to_models_trained_on_patches(tmp_path, model, is_offered):
    assert ("apply_patch" in offered(tmp_path, model).tools) == is_offered


async def test_patch_adds_updates_moves_and_deletes_files(apply, tmp_path):
    (tmp_path / "a.py").write_text("def f():\n    return 1\n\n\ndef g():\n    return 1\n")
    (tmp_path / "old.txt").write_text("x")
    (tmp_path / "here.txt").write_text("one\ntwo\n")
    result = await apply(
        "*** Update File: a.py",
        "@@ def g():",
        "-    return 1",
        "+    return 2",
        "",
        "*** Add File: new/b.py",
        "+import a",
        "+",
        "*** Delete File: old.txt",
        "*** Update File: here.txt",
        "*** Move to: there/here.txt",
        "@@",
        " one",
        "-two",
        "+three",
    )
    assert not result.is_error
    assert result.text.split("\n") == [
        "updated `a.py`",
        "added `new/b.py`",
        "deleted `old.txt`",
        "moved `here.txt` to `there/here.txt`",
        "updated `there/here.txt`",
    ]
    assert (tmp_path / "a.py").read_text() == "def f():\n    return 1\n\n\ndef g():\n    return 2\n"
    assert (tmp_path / "new/b.py").read_text() == "import a\n\n"
    assert (tmp_path / "there/here.txt").read_text() == "one\nthree\n"
    assert sorted(os.listdir(tmp_path)) == ["a.py", "new", "there"]


async def test_patch_without_hunks_only_moves_file(apply, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\0\1")
    (tmp_path / "a.bin").chmod(0o750)
    assert not (await apply("*** Update File: a.bin", "*** Move to: b.bin")).is_error
    assert (tmp_path / "b.bin").read_bytes() == b"\0\1"
    assert (tmp_path / "b.bin").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["*** Update File: none", "@@", "-x", "+y"], "`none` does not exist"),
        (["*** Delete File: none"], "`none` does not exist"),
        (["*** Add File: a.txt", "+x"], "`a.txt` already exists: use Update File"),
        (["*** Update File: a.txt", "*** Move to: b.txt"], "`b.txt` already exists"),
        (["*** Update File: a.txt", "@@", "-three", "+x"], "`a.txt` does not have these lines at or after line 1"),
        (["*** Update File: a.txt", "@@ class X", "-two", "+x"], "`a.txt` has no line `class X`"),
        (["*** Update File: b.txt", "@@", "-same", "+x"], "matches `b.txt` at lines 1, 2: include more surrounding lines"),
        (["*** Update File: ../x", "@@", "-a", "+b"], "outside the workspace"),
        (["*** Update File: link", "@@", "-a", "+b"], "symbolic link"),
        (["*** Delete File: link"], "symbolic link"),
        (["*** Add File: dir/../a.txt", "+x"], "already exists"),
        (["*** Delete File: a.txt", "*** Delete File: ./a.txt"], "is used twice"),
        (["*** Update File: binary", "@@", "-a", "+b"], "binary file"),
    ],
)
async def test_patch_that_does_not_apply_changes_nothing(apply, tmp_path, lines, words):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.txt").write_text("same\nsame\n")
    (tmp_path / "binary").write_bytes(b"\0a")
    (tmp_path / "link").symlink_to(tmp_path / "a.txt")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    result = await apply("*** Add File: first.txt", "+x", *lines)
    assert result.is_error
    assert result.text.startswith("nothing was changed: ")
    assert words in result.text
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


async def test_failed_write_reports_completed_operations(apply, tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("one\n")
    write = Workspace.write

    def full(self, path, content, **options):
        if path == "b.txt":
            raise ToolFailed("`b.txt` can't be written: no space left")
        return write(self, path, content, **options)

    monkeypatch.setattr(Workspace, "write", full)
    lines = ["*** Update File: a.txt", "-one", "+two", "*** Add File: b.txt", "+x", "*** Add File: c.txt", "+x"]
    result = await apply(*lines)
    assert result.is_error
    assert result.text == (
        "`b.txt` can't be written: no space left. Done before that: updated `a.txt`. Not done: added `b.txt`, added `c.txt`."
    )
    assert (tmp_path / "a.txt").read_text() == "two\n"


async def test_match_ignoring_trailing_whitespace_is_noted(apply, tmp_path):
    (tmp_path / "a.txt").write_text("one  \ntwo\t\nthree\n")
    result = await apply("*** Update File: a.txt", "@@", " one", "-two", "+2", " three")
    assert result.text.endswith("[`a.txt` matched at line 1 only when whitespace at the ends of lines was ignored]")
    assert (tmp_path / "a.txt").read_text() == "one  \n2\nthree\n"


def changed(text: str, *lines: str) -> str:
    (change,) = parse_patch("\n".join(["*** Begin Patch", "*** Update File: f", *lines, "*** End Patch"]))
    assert isinstance(change, UpdateFile)
    return apply_hunks(text, change)[0]


@pytest.mark.parametrize(
    ("text", "lines", "expected"),
    [
        ("a\r\nb\r\nc\r\n", ["@@", " a", "-b", "+x", "+y"], "a\r\nx\r\ny\r\nc\r\n"),
        ("a\r\nb", ["@@", "-b", "+x", "+y"], "a\r\nx\r\ny"),
        ("a\nb", ["@@", " b", "+c"], "a\nb\nc"),
        ("a\nb\r\nc\n", ["@@", "-c", "+d"], "a\nb\r\nd\n"),
        ("\ufeffa\nb\n", ["@@", "-a", "+x"], "\ufeffx\nb\n"),
        ("", ["@@", "+a"], "a\n"),
        ("a\n", ["@@", "-a"], ""),
        ("a\nb\n", ["@@", "+end"], "a\nb\nend\n"),
        ("a\nb\nc\n", ["@@ a", "+new"], "a\nnew\nb\nc\n"),
        ("x\ny\nx\n", ["@@", "-x", "+z", "*** End of File"], "x\ny\nz\n"),
        ("x\n  x\n    x\n", ["@@ x", "@@ x", "-    x", "+y"], "x\n  x\ny\n"),
        ("a\n\nb\n", ["@@", " a", "", "-b", "+c"], "a\n\nc\n"),
        ("a\nb\na\nb\n", ["@@", " a", "-b", "+1", " a", "@@", "-b", "+2"], "a\n1\na\n2\n"),
        ("a\nb\n", [" a", "-b"], "a\n"),
    ],
)
def test_text_around_change_is_preserved(text, lines, expected):
    assert changed(text, *lines) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the first line must be"),
        ("*** Begin Patch\n*** Add File: a\n+x", "the last line must be"),
        ("*** Begin Patch\n*** End Patch", "contains no files"),
        ("*** Begin Patch\nhello\n*** End Patch", "line 2 comes before any file"),
        ("*** Begin Patch\n*** Create File: a\n*** End Patch", "unknown directive `*** Create File: a`"),
        ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch", "must begin with +"),
        ("*** Begin Patch\n*** Add File: a\n+x\n\n+y\n*** End Patch", "must begin with +, even empty ones"),
        ("*** Begin Patch\n*** Add File:  \n*** End Patch", "line 2: the path is missing"),
        ("*** Begin Patch\n*** Delete File: a\n-x\n*** End Patch", "nothing can follow"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "has no changes"),
        ("*** Begin Patch\n*** Update File: a\n@@\n*** End Patch", "has no changes"),
        ("*** Begin Patch\n*** Update File: a\n@@ -1,2 +1,2 @@\n-x\n*** End Patch", "line numbers are not supported"),
        ("*** Begin Patch\n*** Update File: a\n@@\nx\n*** End Patch", "must begin with a space, - or +"),
        ("*** Begin Patch\n*** Update File: a\n-x\n*** Move to: b\n*** End Patch", "must directly follow"),
        ("*** Begin Patch\n*** Update File: a\n*** End of File\n*** End Patch", "must follow the lines of a hunk"),
        ("*** Begin Patch\n*** Update File: a\n-x\n*** End of File\n+y\n*** End Patch", "start another hunk"),
    ],
)
def test_invalid_patch_is_explained(text, words):
    with pytest.raises(BadPatch) as error:
        parse_patch(text)
    assert words in str(error.value)


LINES = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=6), min_size=1, max_size=12)


@given(LINES, st.data())
def test_any_combination_of_changes_applies_to_whole_file(lines, data):
    """Each line is kept, removed, or followed by a new one; the result is what the patch says."""
    signs = data.draw(st.lists(st.sampled_from(" -+"), min_size=len(lines), max_size=len(lines)))
    hunk, expected = ["@@"], []
    for sign, line in zip(signs, lines, strict=True):
        hunk.append(f"{'-' if sign == '-' else ' '}{line}")
        expected += [] if sign == "-" else [line]
        if sign == "+":
            hunk.append("+new")
            expected.append("new")
    text = "".join(f"{line}\n" for line in lines)
    assert changed(text, *hunk, "*** End of File") == "".join(f"{line}\n" for line in expected)


@given(
    st.lists(
        st.sampled_from(
            [
                "*** Begin Patch",
                "*** Update File: a",
                "*** Add File: b",
                "@@",
                "@@ x",
                "-x",
                "+y",
                " x",
                "",
                "*** End of File",
                "*** End Patch",
                "z",
            ]
        ),
        max_size=12,
    )
)
def test_parser_only_raises_bad_patch(lines):
    try:
        changes = parse_patch("\n".join(["*** Begin Patch", *lines, "*** End Patch"]))
        for change in changes:
            if isinstance(change, UpdateFile):
                apply_hunks("x\nx\ny\n", change)
    except BadPatch:
        pass
