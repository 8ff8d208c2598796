"""The grep tool: runs the search as a process, collects its matches, and kills it at the deadline."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

from pydantic import Field

from tools_app.builtin.files.patterns import BadPattern, FilePattern
from tools_app.builtin.files.workspace import Workspace
from tools_app.core.definition import (
    BlankAllowedStr,
    CallContext,
    ToolArgs,
    ToolEnv,
    ToolFailed,
    ToolFunction,
    ToolResult,
    text_result,
    tool,
)

TIMEOUT_S = 10.0
MAX_PATTERN_CHARS = 2000
MAX_WORKER_LINE = 1024 * 1024  # bytes; far more than a path and 300 characters need
CODE_ROOT = str(Path(__file__).parents[3])
# Python runs in isolated mode, without site-packages and with few imports: searching a small tree takes 27 ms in total.
BOOTSTRAP = "import sys; sys.path.append(sys.argv[1]); from tools_app.builtin.files.grep_worker import main; main()"
WORKER_ARGV = ("-I", "-S", "-c", BOOTSTRAP, CODE_ROOT)


class GrepArgs(ToolArgs):
    pattern: BlankAllowedStr = Field(description="Python regular expression, matched within each line")
    path: str = Field(".", description="File or directory to search, relative to the workspace")
    include: str = Field("*", description="Files to search, such as `*.py` or `src/**/*.ts`; without /, it matches file names only")
    ignore_case: bool = Field(False, description="Ignore case")
    max_matches: int = Field(200, ge=1, le=1000, description="Maximum number of lines to show")


@tool("grep", group="fs", args=GrepArgs, read_only=True)
def make_grep(env: ToolEnv) -> ToolFunction[GrepArgs]:
    """Find lines that match a regular expression in the text files of the workspace. Returns `path:line: text`.
    Skips binary files, files over 10 MB, links and `.git`. A search stops after 10 seconds."""
    workspace = Workspace.of(env)

    async def grep(args: GrepArgs, call: CallContext) -> ToolResult:
        if not args.pattern or len(args.pattern) > MAX_PATTERN_CHARS:
            raise ToolFailed(f"the pattern must have 1 to {MAX_PATTERN_CHARS} characters")
        directory_parts, file = await asyncio.to_thread(_resolve_target, workspace, args.path)
        request = args.model_dump(include={"pattern", "ignore_case", "max_matches"}) | {
            "include": _include_pattern(args),
            "file": file,
        }
        async with _open_directory(workspace, "/".join(directory_parts)) as directory:
            matches, note = await _search(request | {"directory": directory}, directory)
        prefix = "".join(f"{name}/" for name in directory_parts)
        # The demo model recognizes "no line matches".
        text = "\n".join(f"{prefix}{each['path']}:{each['line']}: {each['text']}" for each in matches) or "no line matches"
        if note:
            text += f"\n[{note}]"
        return text_result(text, details={"matches": len(matches), "complete": not note})

    return grep


def _resolve_target(workspace: Workspace, path: str) -> tuple[list[str], str]:
    """Return the directory to search and, if the path is a file, its name."""
    parts = workspace.parts(path)
    return (parts[:-1], parts[-1]) if workspace.is_file(path) else (parts, "")


def _include_pattern(args: GrepArgs) -> str:
    include = args.include if "/" in args.include else f"**/{args.include}"
    try:
        FilePattern(include)
    except BadPattern as error:
        raise ToolFailed(str(error)) from error
    return include


@asynccontextmanager
async def _open_directory(workspace: Workspace, path: str) -> AsyncGenerator[int, None]:
    """Open a directory on a thread, because a hanging disk must not block the event loop. Yields its descriptor."""

    def open_copy() -> int:
        with workspace.directory(path) as descriptor:
            return os.dup(descriptor)

    opening = asyncio.ensure_future(asyncio.to_thread(open_copy))
    try:
        directory = await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_unused)
        raise
    try:
        yield directory
    finally:
        os.close(directory)


def _close_unused(opening: asyncio.Future[int]) -> None:
    if not opening.cancelled() and not opening.exception():
        os.close(opening.result())


async def _search(request: dict[str, Any], directory: int) -> tuple[list[dict[str, Any]], str]:
    """Return the matches, and a note saying why there may be more ("" if the search is complete)."""
    matches: list[dict[str, Any]] = []
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        *WORKER_ARGV,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=(directory,),
        env={},
        limit=MAX_WORKER_LINE,
    )
    stdin, stdout = cast(asyncio.StreamWriter, worker.stdin), cast(asyncio.StreamReader, worker.stdout)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            stdin.write(json.dumps(request).encode())
            stdin.close()
            async for line in stdout:
                data = json.loads(line)
                if "error" in data:
                    raise ToolFailed(data["error"])
                if "done" in data:
                    note = "" if data["complete"] else f"the first {len(matches)} matches; narrow the search to see others"
                    return matches, note
                matches.append(data)
        raise ToolFailed("the search failed: it needed too much memory or time; use a simpler pattern")
    except TimeoutError:
        return matches, f"stopped after {TIMEOUT_S:g} s; use a simpler pattern or a narrower path"
    finally:
        with suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()
