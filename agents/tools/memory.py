"""The tools memory_search and memory_get: search and read the notes in an agent's workspace.

The index follows the files: before each search, changed files are read again and deleted ones are removed from it.
"""

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any

from pydantic import Field

from agents.memory import index as memory_index
from agents.memory import notes
from agents.memory.index import MemoryHit
from agents.tools.results import count_fitting, errors_as_tool_failures
from clawsite.infra import db
from clawsite.infra.reasons import Reason
from tools_app.builtin.files.read_write import decode_text
from tools_app.builtin.files.workspace import Workspace, find_root
from tools_app.core.definition import CallContext, ToolArgs, ToolEnv, ToolFailed, ToolFunction, ToolResult, ToolUnavailable, tool
from tools_app.core.results import json_result

MAX_NAMED = 10  # skipped notes listed by name
MAX_LINE_LENGTH = 8_000  # characters; fits in a result in any script
NO_NOTES = "there are no notes yet: they are MEMORY.md and the Markdown files below memory/ in the workspace"


class MemorySearchArgs(ToolArgs):
    query: str = Field(min_length=1, max_length=1_000, description="What to look for: a question or some words, in any language")
    max_results: int = Field(6, ge=1, le=50, description="Maximum number of results")
    min_score: float = Field(
        0.1, ge=0, le=1, description="Minimum score of a result, from 0 to 1; 1 means that it contains all words of the query"
    )


def _find_notes_root(env: ToolEnv) -> Path:
    if env.sender_id != env.owner_id:  # notes may also come from the owner's private sessions
        raise ToolUnavailable(Reason("tool.notes_of_owner"))
    return find_root(env)


@tool("memory_search", group="memory", args=MemorySearchArgs, read_only=True, idempotent=True)
def make_memory_search(env: ToolEnv) -> ToolFunction[MemorySearchArgs]:
    """Search your notes: MEMORY.md and memory/**/*.md in the workspace. Do this before answering about earlier work, decisions,
    dates, people or preferences. Returns the best matches; `memory_get` shows the lines around them."""
    root = _find_notes_root(env)

    async def memory_search(args: MemorySearchArgs, call: CallContext) -> ToolResult:
        with errors_as_tool_failures():
            workspace, listing, unreadable = await _update_index(root)
            hits = await db.read(memory_index.search_notes, workspace, args.query, limit=args.max_results, min_score=args.min_score)
        results = [_hit_to_dict(hit) for hit in hits]
        shown = count_fitting(results)
        answer: dict[str, Any] = {"results": results[:shown], "searched": len(listing.stamps) - len(unreadable)}
        if shown < len(results):
            answer["cut"] = f"{len(results) - shown} more results did not fit: ask for fewer, or more precisely"
        left_out = [*listing.left_out, *(f"{path} is not UTF-8 text" for path in unreadable)]
        if left_out:
            more = len(left_out) - MAX_NAMED
            answer["leftOut"] = [*left_out[:MAX_NAMED], *([f"and {more} more"] if more > 0 else [])]
        if not listing.stamps:
            answer["note"] = NO_NOTES
        return json_result(answer)

    return memory_search


async def _update_index(root: Path) -> tuple[str, notes.NoteListing, list[str]]:
    """Update the index. Return the workspace's name in it, the notes, and the paths of notes that are not text.

    Rows are read before the files are listed, so a file added concurrently is never mistaken for deleted. Each note is a
    separate transaction, so a search stopped halfway still leaves its work for the next one.
    """
    real = await asyncio.to_thread(os.path.realpath, root)
    workspace, files = hashlib.sha256(os.fsencode(real)).hexdigest(), Workspace(Path(real))
    known = await db.read(memory_index.list_indexed_files, workspace)
    listing = await asyncio.to_thread(notes.list_notes, files)
    if gone := [path for path in known if path not in listing.stamps]:
        await db.write(memory_index.delete_files, workspace, gone, alone=True)
    unreadable = []
    for path, stamp in listing.stamps.items():
        indexed = known.get(path)
        digest = indexed.digest if indexed else ""
        if indexed is None or indexed.stamp != stamp:
            note = await asyncio.to_thread(notes.read_note, files, path)
            if note is None:
                await db.write(memory_index.delete_files, workspace, [path], alone=True)
                continue
            digest = note.digest
            if indexed is None or (indexed.stamp, indexed.digest) != (note.stamp, note.digest):
                await db.write(memory_index.store_note, workspace, path, note, alone=True)
        if not digest:
            unreadable.append(path)
    return workspace, listing, unreadable


def _hit_to_dict(hit: MemoryHit) -> dict[str, Any]:
    return {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "score": hit.score,
        "snippet": hit.snippet,
        "source": "memory",
    }


class MemoryGetArgs(ToolArgs):
    path: str = Field(description="Path of a note, as `memory_search` returns it")
    from_line: int = Field(1, ge=1, description="First line to show, counted from 1")
    lines: int = Field(200, ge=1, le=2_000, description="Maximum number of lines to show")


@tool("memory_get", group="memory", args=MemoryGetArgs, read_only=True, idempotent=True)
def make_memory_get(env: ToolEnv) -> ToolFunction[MemoryGetArgs]:
    """Show lines of one of your notes: MEMORY.md or a file below memory/. For other files use `read`."""
    workspace = Workspace(_find_notes_root(env))

    async def memory_get(args: MemoryGetArgs, call: CallContext) -> ToolResult:
        return json_result(await asyncio.to_thread(_read_lines, workspace, args))

    return memory_get


def _read_lines(workspace: Workspace, args: MemoryGetArgs) -> dict[str, Any]:
    if not notes.is_note(workspace, args.path):
        raise ToolFailed(f"`{args.path}` is not a note: notes are MEMORY.md and memory/**/*.md; use `read` for other files")
    content, _ = workspace.read(args.path)
    if len(content) > notes.MAX_FILE_BYTES:
        raise ToolFailed(f"`{args.path}` has {len(content)} bytes; notes can have at most {notes.MAX_FILE_BYTES}")
    lines = notes.split_lines(decode_text(content, args.path).removeprefix("\ufeff"))
    if args.from_line > len(lines):
        raise ToolFailed(f"`{args.path}` has {len(lines)} lines; line {args.from_line} does not exist")
    selected = lines[args.from_line - 1 : args.from_line - 1 + args.lines]
    shown = [line[:MAX_LINE_LENGTH] for line in selected]
    shown = shown[: count_fitting(shown)]
    last = args.from_line - 1 + len(shown)
    answer: dict[str, Any] = {
        "path": "/".join(workspace.parts(args.path)),
        "text": "\n".join(shown),
        "startLine": args.from_line,
        "endLine": last,
        "totalLines": len(lines),
    }
    cut = (
        [f"lines longer than {MAX_LINE_LENGTH} characters are cut"]
        if any(len(line) > MAX_LINE_LENGTH for line in selected[: len(shown)])
        else []
    )
    if last < len(lines):
        cut.append(f"continue with from_line {last + 1}")
    if cut:
        answer["cut"] = "; ".join(cut)
    return answer
