"""The syntax tree of a line, by shfmt in its bash dialect. One short-lived process a line; it is given text and never runs it."""

import asyncio
import json
import shutil
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

Node = dict[str, Any]

SECONDS = 1.0
MOST_JSON = 32 * 1024 * 1024  # the tree of 16 KiB of the densest lines is a third of it


class NotParsed(Exception):
    """bash would not take the line either, or at least shfmt cannot follow it."""


class NoParser(Exception):
    """shfmt is missing, was too slow, or said something unexpected: nothing is known about the line."""


@lru_cache(maxsize=1)
def shfmt() -> str | None:
    """The pinned one beside this Python; only without it another one."""
    beside = Path(sys.executable).parent / "shfmt"
    return str(beside) if beside.is_file() else shutil.which("shfmt")


async def parse(line: str) -> Node:
    program = shfmt()
    if program is None:
        raise NoParser("the program shfmt is not installed")
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            "--to-json",
            "--language-dialect=bash",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd="/",  # an .editorconfig of the workspace is no business of the parser
            env={},
        )
    except OSError as error:
        raise NoParser(f"shfmt cannot be started: {error.strerror}") from error
    try:
        out, complaint = await asyncio.wait_for(process.communicate(line.encode()), SECONDS)
    except TimeoutError as error:
        raise NoParser(f"shfmt took more than {SECONDS:g} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        if process.returncode != 1 or not complaint.strip():  # 1 is what it says about a line that it cannot read
            raise NoParser("shfmt ended without an answer")
        raise NotParsed(complaint.decode(errors="replace").strip().splitlines()[0])
    if len(out) > MOST_JSON:
        raise NoParser("the syntax tree is too large")
    try:
        tree = json.loads(out)
    except (ValueError, RecursionError) as error:
        raise NoParser("the syntax tree cannot be read") from error
    if not isinstance(tree, dict) or tree.get("Type") != "File":
        raise NoParser("the syntax tree is not of the expected kind")
    return tree
