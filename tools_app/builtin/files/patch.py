"""The apply_patch tool: changes several files in one call. The whole patch is checked before anything is written."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import Field

from clawsite.infra.reasons import Reason
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
PROVIDERS_TRAINED_ON_PATCHES = frozenset({"openai", "openai-codex"})  # other models write better `edit` calls than patches


class PatchArgs(ToolArgs):
    input: str = Field(description="The whole patch, from `*** Begin Patch` to `*** End Patch`")


@dataclass(frozen=True, slots=True)
class FileOperation:
    """One step of a patch. `description` is in the past tense, for the result."""

    description: str
    do: Callable[[], object]


@tool("apply_patch", group="fs", args=PatchArgs)
def make_apply_patch(env: ToolEnv) -> ToolFunction[PatchArgs]:
    """Add, change, move and delete files in the workspace with one patch:

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

    Three unchanged lines before and after a change are enough to locate it; if they are not unique, add an `@@` line with a
    line further up in the file. `*** End of File` after a hunk means that it is at the end of the file. Nothing is written
    unless the whole patch applies."""
    if not PROVIDERS_TRAINED_ON_PATCHES & set(env.model.lower().split("/")[:-1]):
        raise ToolUnavailable(Reason("tool.openai_only", model=env.model))
    workspace = Workspace.of(env)

    async def apply_patch(args: PatchArgs, call: CallContext) -> ToolResult:
        done, notes = await asyncio.to_thread(_apply_patch, workspace, args.input)
        return text_result("\n".join([*done, *notes]), details={"changes": done})

    return apply_patch


def _apply_patch(workspace: Workspace, patch: str) -> tuple[list[str], list[str]]:
    """Return what was done, and notes for the model."""
    notes: list[str] = []
    try:
        changes = parse_patch(patch)
        _check_names(workspace, changes)
        operations = [operation for change in changes for operation in _plan_change(workspace, change, notes)]
    except BadPatch as error:
        raise ToolFailed(f"nothing was changed: {error}") from error
    except ToolFailed as failure:
        raise ToolFailed(f"nothing was changed: {failure}") from failure
    done: list[str] = []
    for operation in operations:
        try:
            operation.do()
        except ToolFailed as failure:
            remaining = ", ".join(each.description for each in operations[len(done) :])
            raise ToolFailed(f"{failure}. Done before that: {', '.join(done) or 'nothing'}. Not done: {remaining}.") from failure
        done.append(operation.description)
    return done, notes


def _check_names(workspace: Workspace, changes: Sequence[FileChange]) -> None:
    if len(changes) > MAX_FILES:
        raise BadPatch(f"a patch can change at most {MAX_FILES} files; this one has {len(changes)}")
    named: set[tuple[str, ...]] = set()
    for change in changes:
        target = change.move_to if isinstance(change, UpdateFile) else ""
        for path in (change.path, target) if target else (change.path,):
            parts = tuple(workspace.parts(path))
            if parts in named:
                raise BadPatch(f"`{path}` is used twice: put all changes to a file in one section")
            named.add(parts)


def _plan_change(workspace: Workspace, change: FileChange, notes: list[str]) -> list[FileOperation]:
    match change:
        case AddFile(path=path):
            if workspace.stat(path):
                raise BadPatch(f"`{path}` already exists: use Update File")
            content = encode_text(change.content)
            return [FileOperation(f"added `{path}`", lambda: workspace.write(path, content, must_be_new=True))]
        case DeleteFile(path=path):
            if (status := workspace.stat(path)) is None:
                raise BadPatch(f"`{path}` does not exist")
            return [FileOperation(f"deleted `{path}`", lambda: workspace.delete(path, unchanged_since=status))]
        case UpdateFile():
            return _plan_update(workspace, change, notes)


def _plan_update(workspace: Workspace, change: UpdateFile, notes: list[str]) -> list[FileOperation]:
    path, target = change.path, change.move_to or change.path
    content, status = workspace.read(path)
    operations = []
    if change.move_to:
        if workspace.stat(target):
            raise BadPatch(f"`{target}` already exists: nothing can be moved there")
        operations.append(
            FileOperation(f"moved `{path}` to `{target}`", lambda: workspace.move(path, target, unchanged_since=status))
        )
    if change.hunks:
        text, fuzzy = apply_hunks(decode_text(content, path), change)
        if fuzzy:
            lines = ", ".join(map(str, fuzzy))
            notes.append(f"[`{target}` matched at line {lines} only when whitespace at the ends of lines was ignored]")
        operations.append(FileOperation(f"updated `{target}`", _make_write(workspace, target, encode_text(text), status)))
    return operations


def _make_write(workspace: Workspace, path: str, content: bytes, status: os.stat_result) -> Callable[[], object]:
    return lambda: workspace.write(path, content, unchanged_since=status)
