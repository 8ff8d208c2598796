"""The tool apply_patch: several changes to several files in one call, checked as a whole before anything is written."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import Field

from tools_app.builtin.files.patch_format import AddFile, BadPatch, DeleteFile, FileChange, UpdateFile, apply_hunks, parse_patch
from tools_app.builtin.files.read_write import decode_text, encode_text
from tools_app.builtin.files.workspace import Workspace
from tools_app.core.definition import (
    CallContext,
    ToolArgs,
    ToolEnv,
    ToolFailed,
    ToolFunction,
    ToolResult,
    ToolUnavailable,
    text_result,
    tool,
)

MAX_FILES = 100
PROVIDERS_TRAINED_ON_PATCHES = frozenset({"openai", "openai-codex"})  # others write better `edit` calls than patches


class PatchArgs(ToolArgs):
    input: str = Field(description="The whole patch, from `*** Begin Patch` to `*** End Patch`")


@dataclass(frozen=True, slots=True)
class FileOperation:
    """One thing to do, in the words for when it is done."""

    words: str
    do: Callable[[], object]


@tool("apply_patch", group="fs", args=PatchArgs)
def make_apply_patch(env: ToolEnv) -> ToolFunction[PatchArgs]:
    """Add, change, move and delete files of the workspace with one patch:

    *** Begin Patch
    *** Update File: src/a.py
    *** Move to: src/b.py
    @@ def greet():
     unchanged line
    -removed line
    +added line
    *** Add File: notes.md
    +first line
    *** Delete File: old.txt
    *** End Patch

    Three unchanged lines before and after a change are enough to find its place; where they are not unique, an `@@` line
    names a line further up. `*** End of File` behind a hunk means that it stands at the end. Nothing is written
    unless the whole patch fits."""
    if not PROVIDERS_TRAINED_ON_PATCHES & set(env.model.lower().split("/")[:-1]):
        raise ToolUnavailable(f"made for models of OpenAI, and this one is `{env.model}`")
    workspace = Workspace.of(env)

    async def apply_patch(args: PatchArgs, call: CallContext) -> ToolResult:
        done, notes = await asyncio.to_thread(_apply_patch, workspace, args.input)
        return text_result("\n".join([*done, *notes]), details={"changes": done})

    return apply_patch


def _apply_patch(workspace: Workspace, patch: str) -> tuple[list[str], list[str]]:
    """What was done, and what the model should know about it."""
    notes: list[str] = []
    try:
        changes = parse_patch(patch)
        _check_names(workspace, changes)
        deeds = [deed for change in changes for deed in _plan_change(workspace, change, notes)]
    except BadPatch as error:
        raise ToolFailed(f"nothing was changed: {error}") from error
    except ToolFailed as failure:
        raise ToolFailed(f"nothing was changed: {failure}") from failure
    done: list[str] = []
    for deed in deeds:
        try:
            deed.do()
        except ToolFailed as failure:
            left = ", ".join(each.words for each in deeds[len(done) :])
            raise ToolFailed(f"{failure}. Done before that: {', '.join(done) or 'nothing'}. Not done: {left}.") from failure
        done.append(deed.words)
    return done, notes


def _check_names(workspace: Workspace, changes: Sequence[FileChange]) -> None:
    if len(changes) > MAX_FILES:
        raise BadPatch(f"a patch may change {MAX_FILES} files at most, this one names {len(changes)}")
    named: set[tuple[str, ...]] = set()
    for change in changes:
        moved = change.move_to if isinstance(change, UpdateFile) else ""
        for path in (change.path, moved) if moved else (change.path,):
            place = tuple(workspace.parts(path))
            if place in named:
                raise BadPatch(f"`{path}` is named twice: put everything about one file in one section")
            named.add(place)


def _plan_change(workspace: Workspace, change: FileChange, notes: list[str]) -> list[FileOperation]:
    match change:
        case AddFile(path=path):
            if workspace.look(path):
                raise BadPatch(f"`{path}` exists already: use Update File")
            content = encode_text(change.content)
            return [FileOperation(f"added `{path}`", lambda: workspace.write(path, content, must_be_new=True))]
        case DeleteFile(path=path):
            if (seen := workspace.look(path)) is None:
                raise BadPatch(f"`{path}` does not exist")
            return [FileOperation(f"deleted `{path}`", lambda: workspace.delete(path, unchanged_since=seen))]
        case UpdateFile():
            return _plan_update(workspace, change, notes)


def _plan_update(workspace: Workspace, change: UpdateFile, notes: list[str]) -> list[FileOperation]:
    path, place = change.path, change.move_to or change.path
    content, seen = workspace.read(path)
    deeds = []
    if change.move_to:
        if workspace.look(place):
            raise BadPatch(f"`{place}` exists already: nothing can be moved there")
        deeds.append(FileOperation(f"moved `{path}` to `{place}`", lambda: workspace.move(path, place, unchanged_since=seen)))
    if change.hunks:
        text, fuzzy = apply_hunks(decode_text(content, path), change)
        if fuzzy:
            lines = ", ".join(map(str, fuzzy))
            notes.append(f"[`{place}` fitted at line {lines} only without regard to blanks at the ends of lines]")
        deeds.append(FileOperation(f"updated `{place}`", _make_write(workspace, place, encode_text(text), seen)))
    return deeds


def _make_write(workspace: Workspace, path: str, content: bytes, seen: os.stat_result) -> Callable[[], object]:
    return lambda: workspace.write(path, content, unchanged_since=seen)
