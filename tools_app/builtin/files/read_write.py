"""The tools read, write, edit and glob. tools_app.builtin.files.workspace keeps them inside the workspace."""

import asyncio

from pydantic import Field

from tools_app.builtin.files import tree
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

MAX_SHOWN_BYTES = 50 * 1024  # of a file per call: half the size limit of a result
MAX_WALKED = 200_000  # directory entries; about a second of work
BINARY_PROBE = 8192  # bytes; a NUL among these means binary, as in git and grep


def decode_text(content: bytes, path: str) -> str:
    if b"\0" in content[:BINARY_PROBE]:
        raise ToolFailed(f"`{path}` is a binary file of {len(content)} bytes; only text can be shown or edited")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ToolFailed(f"`{path}` is not UTF-8 text; only UTF-8 can be shown or edited") from None


class ReadArgs(ToolArgs):
    path: str = Field(description="File to show, relative to the workspace")
    offset: int = Field(1, ge=1, description="First line to show, starting at 1")
    limit: int = Field(2000, ge=1, le=10_000, description="Maximum number of lines to show")


@tool("read", group="fs", args=ReadArgs, read_only=True)
def make_read(env: ToolEnv) -> ToolFunction[ReadArgs]:
    """Show a text file from the workspace, or part of it: `limit` lines starting at line `offset`, at most 50 KB per call.
    If there is more, the last line says where to continue."""
    workspace = Workspace.of(env)

    async def read(args: ReadArgs, call: CallContext) -> ToolResult:
        content, _ = await asyncio.to_thread(workspace.read, args.path)
        lines = decode_text(content, args.path).removeprefix("\ufeff").removesuffix("\n").split("\n")
        if args.offset > len(lines):
            raise ToolFailed(f"`{args.path}` has {len(lines)} lines; line {args.offset} does not exist")
        requested = lines[args.offset - 1 : args.offset - 1 + args.limit]
        shown = _fit_lines(requested)
        last = args.offset + len(shown) - 1
        text = "\n".join(shown)
        if len(shown) == 1 and len(shown[0]) < len(requested[0]):
            text += f"\n[line {args.offset} has {len(requested[0])} characters, truncated here]"
        if last < len(lines):
            text += f"\n[lines {args.offset} to {last} of {len(lines)}; continue with offset {last + 1}]"
        return text_result(text, details={"path": args.path, "lines": len(lines), "first": args.offset, "last": last})

    return read


def _fit_lines(lines: list[str]) -> list[str]:
    """Return as many whole lines as fit in one result, or the beginning of the first line if it doesn't fit."""
    room = MAX_SHOWN_BYTES
    for number, line in enumerate(lines):
        room -= len(line.encode()) + 1
        if room < 0:
            return lines[:number] or [line.encode()[:MAX_SHOWN_BYTES].decode(errors="ignore")]
    return lines


class WriteArgs(ToolArgs):
    path: str = Field(description="File to write, relative to the workspace")
    content: BlankAllowedStr = Field(description="The whole new content of the file")


@tool("write", group="fs", args=WriteArgs)
def make_write(env: ToolEnv) -> ToolFunction[WriteArgs]:
    """Create a file in the workspace or replace its whole content. Missing directories are created.
    To change part of a file, use `edit`."""
    workspace = Workspace.of(env)

    async def write(args: WriteArgs, call: CallContext) -> ToolResult:
        content = encode_text(args.content)
        new = await asyncio.to_thread(workspace.write, args.path, content)
        message = f"{'created' if new else 'replaced'} `{args.path}` ({len(content)} bytes)"
        return text_result(message, details={"path": args.path, "bytes": len(content), "created": new})

    return write


def encode_text(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ToolFailed("the text contains half of a surrogate pair, which can't be encoded as UTF-8") from None


class EditArgs(ToolArgs):
    path: str = Field(description="File to change, relative to the workspace")
    old_text: BlankAllowedStr = Field(description="Exact text to replace, including whitespace and line breaks")
    new_text: BlankAllowedStr = Field(description="Replacement text")
    replace_all: bool = Field(False, description="Replace every occurrence of old_text, not just one")


@tool("edit", group="fs", args=EditArgs)
def make_edit(env: ToolEnv) -> ToolFunction[EditArgs]:
    """Replace text in a file in the workspace. `old_text` must occur exactly once in the file unless `replace_all` is set:
    include enough of the surrounding lines to make it unique."""
    workspace = Workspace.of(env)

    async def edit(args: EditArgs, call: CallContext) -> ToolResult:
        count = await asyncio.to_thread(_apply_edit, workspace, args)
        message = f"replaced {count} occurrence{'s' if count > 1 else ''} in `{args.path}`"
        return text_result(message, details={"path": args.path, "replacements": count})

    return edit


def _apply_edit(workspace: Workspace, args: EditArgs) -> int:
    if not args.old_text:
        raise ToolFailed("old_text is empty: to create or replace a whole file, use `write`")
    if args.old_text == args.new_text:
        raise ToolFailed("old_text and new_text are the same: nothing would change")
    content, status = workspace.read(args.path)
    before = decode_text(content, args.path)
    old, new = args.old_text, args.new_text
    if "\r\n" in before and "\r" not in old:  # `read` shows every line ending as \n
        old, new = old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
    count = before.count(old)
    if not count:
        raise ToolFailed(f"old_text was not found in `{args.path}`: it must match exactly, with whitespace; read the file again")
    if count > 1 and not args.replace_all:
        raise ToolFailed(f"old_text occurs {count} times in `{args.path}`: include more surrounding lines, or set replace_all")
    workspace.write(args.path, encode_text(before.replace(old, new)), unchanged_since=status)
    return count


class GlobArgs(ToolArgs):
    pattern: str = Field(description="Pattern, such as `**/*`, `*.md`, `src/**/*.{py,html}`")
    path: str = Field(".", description="Directory to search, relative to the workspace")
    limit: int = Field(500, ge=1, le=2000, description="Maximum number of files to list")


@tool("glob", group="fs", args=GlobArgs, read_only=True)
def make_glob(env: ToolEnv) -> ToolFunction[GlobArgs]:
    """List the files in the workspace whose paths match a pattern. To list all files, use the pattern `**/*`.
    `*` and `?` match characters within a name, `**` matches any number of directories, `{a,b}` matches either:
    `*.py` finds files in the directory itself, `**/*.py` also in all subdirectories. Links and `.git` are skipped."""
    workspace = Workspace.of(env)

    async def glob(args: GlobArgs, call: CallContext) -> ToolResult:
        try:
            pattern = FilePattern(args.pattern)
        except BadPattern as error:
            raise ToolFailed(str(error)) from error
        paths, more = await asyncio.to_thread(_find_files, workspace, pattern, args)
        text = "\n".join(paths) or "no files match"  # the demo model recognizes this
        if more:
            text += f"\n[{len(paths)} files are listed; there may be more: narrow the pattern or the path]"
        return text_result(text, details={"count": len(paths), "more": more})

    return glob


def _find_files(workspace: Workspace, pattern: FilePattern, args: GlobArgs) -> tuple[list[str], bool]:
    prefix = "".join(f"{name}/" for name in workspace.parts(args.path))
    walk = tree.FileWalk(pattern, max_entries=MAX_WALKED)
    paths: list[str] = []
    with workspace.directory(args.path) as top:
        for file in walk.walk_below(top):
            if len(paths) == args.limit:
                return paths, True
            paths.append(prefix + file.path)
    return paths, not walk.complete
