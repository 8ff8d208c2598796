"""The search process of the grep tool, which the caller can kill. Standard library only, so that it starts in milliseconds.

Python's `re` can take years for one line and holds the interpreter lock while it matches. In a separate process this affects
nothing else: the parent kills the process at its deadline, and limits on CPU time and memory end it if the parent is gone.
Reads one JSON object from stdin and writes one JSON object per line to stdout.
"""

import json
import re
import resource
import sys
from collections.abc import Iterator
from typing import Any

from tools_app.builtin.files import tree
from tools_app.builtin.files.patterns import FilePattern

CPU_SECONDS = 15
MEMORY_BYTES = 512 * 1024 * 1024
MAX_FILE_BYTES = 10 * 1024 * 1024
MAX_WALKED = 1_000_000  # normally the deadline is reached first
BINARY_PROBE = 8192
MAX_LINE_SHOWN = 300  # characters


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in search(json.load(sys.stdin)):
        print(json.dumps(line), flush=True)  # immediately, so that matches found before the deadline are not lost


def search(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the matches, then an object with `done`; or an object with `error`."""
    try:
        expression = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError) as error:
        yield {"error": f"the pattern is not a valid regular expression: {error}"}
        return
    left = request["max_matches"]
    directory, file = request["directory"], request["file"]
    walk = tree.FileWalk(FilePattern(request["include"]), max_entries=MAX_WALKED)
    for entry in [tree.FoundFile(file, directory, file)] if file else walk.walk_below(directory):
        for number, line in _matching_lines(entry, expression):
            if not left:
                yield {"done": True, "complete": False}
                return
            left -= 1
            yield {"path": entry.path, "line": number, "text": line}
    yield {"done": True, "complete": walk.complete}


def _matching_lines(entry: tree.FoundFile, expression: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    try:
        content, _ = tree.read_at_most(entry.parent, entry.name, MAX_FILE_BYTES)
    except OSError:  # deleted, unreadable, or no longer a regular file
        return
    if len(content) > MAX_FILE_BYTES or b"\0" in content[:BINARY_PROBE]:
        return
    for number, line in enumerate(content.decode(errors="replace").split("\n"), start=1):
        match = expression.search(line)
        if match:
            begin = max(0, min(match.start() - MAX_LINE_SHOWN // 3, len(line) - MAX_LINE_SHOWN))
            yield number, line[begin : begin + MAX_LINE_SHOWN]
