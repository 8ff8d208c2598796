"""The tool apply_patch: several changes to several files in one call, checked as a whole before anything is written."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import Field

from tools_app.builtin.files.patch_format import AddFile, BadPatch, DeleteFile, FileChange, UpdateFile, apply_hunks, read_patch
from tools_app.builtin.files.read_write import encoded, text_of
from tools_app.builtin.files.workspace import Workspace
from tools_app.core.definition import Call, Declined, Execute, ToolArgs, ToolEnv, ToolFailed, ToolResult, text_result, tool

MAX_FILES = 100
TRAINED_ON_IT = frozenset({"openai", "openai-codex"})  # others write better `edit` calls than patches


class PatchArgs(ToolArgs):
    input: str = Field(description="The whole patch, from `*** Begin Patch` to `*** End Patch`")


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing to do, in the words for when it is done."""

    words: str
    do: Callable[[], object]


@tool("apply_patch", group="fs", args=PatchArgs)
def make_apply_patch(env: ToolEnv) -> Execute[PatchArgs]:
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
    if not TRAINED_ON_IT & set(env.model.lower().split("/")[:-1]):
        raise Declined(f"made for models of OpenAI, and this one is `{env.model}`")
    workspace = Workspace.of(env)

    async def apply_patch(args: PatchArgs, call: Call) -> ToolResult:
        done, notes = await asyncio.to_thread(_apply, workspace, args.input)
        return text_result("\n".join([*done, *notes]), details={"changes": done})

    return apply_patch


def _apply(workspace: Workspace, patch: str) -> tuple[list[str], list[str]]:
    """What was done, and what the model should know about it."""
    notes: list[str] = []
    try:
        changes = read_patch(patch)
        _check_names(workspace, changes)
        deeds = [deed for change in changes for deed in _planned(workspace, change, notes)]
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


def _planned(workspace: Workspace, change: FileChange, notes: list[str]) -> list[Deed]:
    match change:
        case AddFile(path=path):
            if workspace.look(path):
                raise BadPatch(f"`{path}` exists already: use Update File")
            content = encoded(change.content)
            return [Deed(f"added `{path}`", lambda: workspace.write(path, content, must_be_new=True))]
        case DeleteFile(path=path):
            if (seen := workspace.look(path)) is None:
                raise BadPatch(f"`{path}` does not exist")
            return [Deed(f"deleted `{path}`", lambda: workspace.delete(path, unchanged_since=seen))]
        case UpdateFile():
            return _planned_update(workspace, change, notes)


def _planned_update(workspace: Workspace, change: UpdateFile, notes: list[str]) -> list[Deed]:
    path, place = change.path, change.move_to or change.path
    content, seen = workspace.read(path)
    deeds = []
    if change.move_to:
        if workspace.look(place):
            raise BadPatch(f"`{place}` exists already: nothing can be moved there")
        deeds.append(Deed(f"moved `{path}` to `{place}`", lambda: workspace.move(path, place, unchanged_since=seen)))
    if change.hunks:
        text, fuzzy = apply_hunks(text_of(content, path), change)
        if fuzzy:
            lines = ", ".join(map(str, fuzzy))
            notes.append(f"[`{place}` fitted at line {lines} only without regard to blanks at the ends of lines]")
        deeds.append(Deed(f"updated `{place}`", _writing(workspace, place, encoded(text), seen)))
    return deeds


def _writing(workspace: Workspace, path: str, content: bytes, seen: os.stat_result) -> Callable[[], object]:
    return lambda: workspace.write(path, content, unchanged_since=seen)
