"""File patterns: `*` and `?` within a name, `**` across directories, `{a,b}` for either. Standard library only.

A pattern is matched one name at a time during the walk, so that directories it can't match are never entered.
"""

import fnmatch
import re

MAX_PATTERN_CHARS = 1000
MAX_ALTERNATIVES = 64
BRACES = re.compile(r"\{([^{}]*)\}")

# Positions in the pattern after the names so far: (alternative, number of parts matched).
States = frozenset[tuple[int, int]]


class BadPattern(ValueError):
    """The pattern is invalid; the message says why."""


class FilePattern:
    def __init__(self, pattern: str) -> None:
        if not pattern.strip() or len(pattern) > MAX_PATTERN_CHARS or "\0" in pattern:
            raise BadPattern(f"the pattern must have 1 to {MAX_PATTERN_CHARS} characters")
        if pattern.startswith("/"):
            raise BadPattern("the pattern is relative to the searched directory: omit the leading /")
        self._alternatives = [_compile_parts(each) for each in _expand_braces(pattern)]
        self.start = self._expand_double_stars({(number, 0) for number in range(len(self._alternatives))})

    def step(self, states: States, name: str) -> States:
        """Return the positions after one more directory or file name."""
        reached = set()
        for number, position in states:
            parts = self._alternatives[number]
            if position == len(parts):
                continue
            part = parts[position]
            if part is None:
                reached.add((number, position))
            elif part.match(name):
                reached.add((number, position + 1))
        return self._expand_double_stars(reached)

    def is_match(self, states: States) -> bool:
        return any(position == len(self._alternatives[number]) for number, position in states)

    def _expand_double_stars(self, states: set[tuple[int, int]]) -> States:
        """Add the positions reached when `**` matches no directory."""
        reached = set(states)
        for number, position in states:
            parts = self._alternatives[number]
            while position < len(parts) and parts[position] is None:
                position += 1
                reached.add((number, position))
        return frozenset(reached)


def matches_file(pattern: FilePattern, path: str) -> bool:
    states = pattern.start
    for name in path.split("/"):
        states = pattern.step(states, name)
    return pattern.is_match(states)


def _compile_parts(pattern: str) -> list[re.Pattern[str] | None]:
    """Compile each name; None stands for `**`. fnmatch's expressions are atomic, so they can't backtrack for long."""
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if ".." in names:
        raise BadPattern("`..` is not allowed in a pattern")
    return [None if name == "**" else re.compile(fnmatch.translate(name)) for name in names]


def _expand_braces(pattern: str) -> list[str]:
    patterns = [pattern]
    while any(BRACES.search(each) for each in patterns):
        patterns = [expanded for each in patterns for expanded in _expand_first_brace(each)]
        if len(patterns) > MAX_ALTERNATIVES:
            raise BadPattern(f"the pattern has more than {MAX_ALTERNATIVES} alternatives")
    return patterns


def _expand_first_brace(pattern: str) -> list[str]:
    braces = BRACES.search(pattern)
    if braces is None:
        return [pattern]
    return [pattern[: braces.start()] + choice + pattern[braces.end() :] for choice in braces[1].split(",")]
