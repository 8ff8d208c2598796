"""Parse a line into a syntax tree with shfmt's bash dialect. One short-lived process per line; it never runs the line."""

import asyncio
import json
import shutil
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons

Node = dict[str, Any]

TIMEOUT_SECONDS = 1.0
MAX_JSON_BYTES = 32 * 1024 * 1024  # three times the tree size of the densest 16 KiB line


register_reasons(
    {
        "parser.missing": gettext_noop("the program shfmt is not installed"),
        "parser.start": gettext_noop("shfmt can't be started: {error}"),
        "parser.timeout": gettext_noop("shfmt took more than {seconds} s"),
        "parser.silent": gettext_noop("shfmt exited without a result"),
        "parser.size": gettext_noop("the syntax tree is too large"),
        "parser.unreadable": gettext_noop("the syntax tree can't be read"),
        "parser.type": gettext_noop("the syntax tree has an unexpected type"),
    }
)


class ParseFailed(Exception):
    """shfmt can't parse the line; usually bash would reject it too."""


class ParserUnavailable(Exception):
    """shfmt is missing, too slow, or returned something unexpected: nothing is known about the line."""

    def __init__(self, problem: Reason) -> None:
        super().__init__(problem.text)
        self.problem = problem


@lru_cache(maxsize=1)
def find_shfmt() -> str | None:
    """Return the pinned shfmt next to this Python, or one on PATH if that is missing."""
    beside = Path(sys.executable).parent / "shfmt"
    return str(beside) if beside.is_file() else shutil.which("shfmt")


async def parse_line(line: str) -> Node:
    program = find_shfmt()
    if program is None:
        raise ParserUnavailable(Reason("parser.missing"))
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            "--to-json",
            "--language-dialect=bash",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd="/",  # ignore an .editorconfig in the workspace
            env={},
        )
    except OSError as error:
        raise ParserUnavailable(Reason("parser.start", error=error.strerror)) from error
    try:
        out, errors = await asyncio.wait_for(process.communicate(line.encode()), TIMEOUT_SECONDS)
    except TimeoutError as error:
        raise ParserUnavailable(Reason("parser.timeout", seconds=f"{TIMEOUT_SECONDS:g}")) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        if process.returncode != 1 or not errors.strip():  # shfmt exits with 1 for lines it can't parse
            raise ParserUnavailable(Reason("parser.silent"))
        raise ParseFailed(errors.decode(errors="replace").strip().splitlines()[0])
    if len(out) > MAX_JSON_BYTES:
        raise ParserUnavailable(Reason("parser.size"))
    try:
        tree = json.loads(out)
    except (ValueError, RecursionError) as error:
        raise ParserUnavailable(Reason("parser.unreadable")) from error
    if not isinstance(tree, dict) or tree.get("Type") != "File":
        raise ParserUnavailable(Reason("parser.type"))
    return tree
