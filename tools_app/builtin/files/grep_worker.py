"""The search itself, in a process of its own that the caller can kill. Standard library only: it starts in milliseconds.

Python's `re` can need years for one line, and holds the interpreter's lock all the while. Here that costs nobody else
anything: the parent kills the process at its deadline, and limits on CPU time and memory end it should the parent be gone.
Request: one JSON object on stdin. Answer: one JSON object a line on stdout.
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
MAX_WALKED = 1_000_000  # the deadline comes first
BINARY_PROBE = 8192
MAX_LINE_SHOWN = 300  # characters


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for answer in search(json.load(sys.stdin)):
        print(json.dumps(answer), flush=True)  # at once: what was found before the deadline counts


def search(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields matches, then one object with `done`; or one with `error`."""
    try:
        expression = re.compile(request["pattern"], re.IGNORECASE if request["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError) as error:
        yield {"error": f"the pattern is no valid regular expression: {error}"}
        return
    left = request["max_matches"]
    directory, file = request["directory"], request["file"]
    walk = tree.FileWalk(FilePattern(request["include"]), max_entries=MAX_WALKED)
    for found in [tree.FoundFile(file, directory, file)] if file else walk.walk_below(directory):
        for number, line in _matching_lines(found, expression):
            if not left:
                yield {"done": True, "complete": False}
                return
            left -= 1
            yield {"path": found.path, "line": number, "text": line}
    yield {"done": True, "complete": walk.complete}


def _matching_lines(found: tree.FoundFile, expression: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    try:
        content, _ = tree.read_at_most(found.parent, found.name, MAX_FILE_BYTES)
    except OSError:  # gone, unreadable, or no regular file by now
        return
    if len(content) > MAX_FILE_BYTES or b"\0" in content[:BINARY_PROBE]:
        return
    for number, line in enumerate(content.decode(errors="replace").split("\n"), start=1):
        match = expression.search(line)
        if match:
            begin = max(0, min(match.start() - MAX_LINE_SHOWN // 3, len(line) - MAX_LINE_SHOWN))
            yield number, line[begin : begin + MAX_LINE_SHOWN]
