"""The grep tool: starts the search as a process, collects what it finds, and kills it at the deadline."""

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
MAX_ANSWER_BYTES = 1024 * 1024  # a line of the worker: a path and 300 characters fit many times over
CODE_ROOT = str(Path(__file__).parents[3])
# Isolated, without site-packages and with few imports: a search of a small tree takes 27 ms in all.
BOOTSTRAP = "import sys; sys.path.append(sys.argv[1]); from tools_app.builtin.files.grep_worker import main; main()"
WORKER_ARGV = ("-I", "-S", "-c", BOOTSTRAP, CODE_ROOT)


class GrepArgs(ToolArgs):
    pattern: BlankAllowedStr = Field(description="Python regular expression, matched within each line")
    path: str = Field(".", description="File or directory to search, relative to the workspace")
    include: str = Field("*", description="Which files, such as `*.py` or `src/**/*.ts`; a pattern without / looks at names only")
    ignore_case: bool = Field(False, description="Take upper and lower case as the same")
    max_matches: int = Field(200, ge=1, le=1000, description="How many lines to show at most")


@tool("grep", group="fs", args=GrepArgs, read_only=True)
def make_grep(env: ToolEnv) -> ToolFunction[GrepArgs]:
    """Find lines that match a regular expression in the text files of the workspace. Answers `path:line: text`.
    Binary files, files over 10 MB, links and `.git` are passed over; a search ends after 10 seconds."""
    workspace = Workspace.of(env)

    async def grep(args: GrepArgs, call: CallContext) -> ToolResult:
        if not args.pattern or len(args.pattern) > MAX_PATTERN_CHARS:
            raise ToolFailed(f"the pattern must have 1 to {MAX_PATTERN_CHARS} characters")
        above, file = await asyncio.to_thread(_resolve_target, workspace, args.path)
        request = args.model_dump(include={"pattern", "ignore_case", "max_matches"}) | {
            "include": _include_pattern(args),
            "file": file,
        }
        async with _open_directory(workspace, "/".join(above)) as directory:
            found, ending = await _search(request | {"directory": directory}, directory)
        prefix = "".join(f"{name}/" for name in above)
        text = "\n".join(f"{prefix}{each['path']}:{each['line']}: {each['text']}" for each in found) or "no line matches"
        if ending:
            text += f"\n[{ending}]"
        return text_result(text, details={"matches": len(found), "complete": not ending})

    return grep


def _resolve_target(workspace: Workspace, path: str) -> tuple[list[str], str]:
    """The directory to search, and the one file in it if the path names a file."""
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
    """The descriptor of a directory, opened on a thread: a disk that does not answer must not stop the event loop."""

    def opened() -> int:
        with workspace.directory(path) as found:
            return os.dup(found)

    opening = asyncio.ensure_future(asyncio.to_thread(opened))
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
    """The matches, and why there may be more of them ("" if there are not)."""
    found: list[dict[str, Any]] = []
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        *WORKER_ARGV,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        pass_fds=(directory,),
        env={},
        limit=MAX_ANSWER_BYTES,
    )
    asked, answers = cast(asyncio.StreamWriter, worker.stdin), cast(asyncio.StreamReader, worker.stdout)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            asked.write(json.dumps(request).encode())
            asked.close()
            async for line in answers:
                answer = json.loads(line)
                if "error" in answer:
                    raise ToolFailed(answer["error"])
                if "done" in answer:
                    return found, "" if answer["complete"] else f"the first {len(found)} matches; narrow the search to see others"
                found.append(answer)
        raise ToolFailed("the search broke off: it needed too much memory or time; use a simpler pattern")
    except TimeoutError:
        return found, f"stopped after {TIMEOUT_S:g} s; use a simpler pattern or a narrower path"
    finally:
        with suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()
