"""File patterns: `*` and `?` within a name, `**` across directories, `{a,b}` for either. Standard library only.

A pattern is walked along with the directories, name by name, so that a tree it cannot match is never entered.
"""

import fnmatch
import re

MAX_PATTERN_CHARS = 1000
MAX_ALTERNATIVES = 64
BRACES = re.compile(r"\{([^{}]*)\}")

# Places in the pattern that the names so far have reached: (alternative, number of parts matched).
States = frozenset[tuple[int, int]]


class BadPattern(ValueError):
    """The pattern cannot be used; the message says why."""


class FilePattern:
    def __init__(self, pattern: str) -> None:
        if not pattern.strip() or len(pattern) > MAX_PATTERN_CHARS or "\0" in pattern:
            raise BadPattern(f"the pattern must have 1 to {MAX_PATTERN_CHARS} characters")
        if pattern.startswith("/"):
            raise BadPattern("the pattern is relative to the directory that is searched: leave out the leading /")
        self._alternatives = [_compile_parts(each) for each in _expand_braces(pattern)]
        self.start = self._expand_double_stars({(number, 0) for number in range(len(self._alternatives))})

    def step(self, states: States, name: str) -> States:
        """Where one more directory or file name leads."""
        after = set()
        for number, place in states:
            parts = self._alternatives[number]
            if place == len(parts):
                continue
            part = parts[place]
            if part is None:
                after.add((number, place))
            elif part.match(name):
                after.add((number, place + 1))
        return self._expand_double_stars(after)

    def is_match(self, states: States) -> bool:
        return any(place == len(self._alternatives[number]) for number, place in states)

    def _expand_double_stars(self, states: set[tuple[int, int]]) -> States:
        """Add the places reached by letting a `**` stand for no directory at all."""
        reached = set(states)
        for number, place in states:
            parts = self._alternatives[number]
            while place < len(parts) and parts[place] is None:
                place += 1
                reached.add((number, place))
        return frozenset(reached)


def matches_file(pattern: FilePattern, path: str) -> bool:
    states = pattern.start
    for name in path.split("/"):
        states = pattern.step(states, name)
    return pattern.is_match(states)


def _compile_parts(pattern: str) -> list[re.Pattern[str] | None]:
    """One compiled name each; None stands for `**`. fnmatch's expressions are atomic, so they cannot backtrack for long."""
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if ".." in names:
        raise BadPattern("`..` is not allowed in a pattern")
    return [None if name == "**" else re.compile(fnmatch.translate(name)) for name in names]


def _expand_braces(pattern: str) -> list[str]:
    found = [pattern]
    while any(BRACES.search(each) for each in found):
        found = [spelled for each in found for spelled in _expand_first_brace(each)]
        if len(found) > MAX_ALTERNATIVES:
            raise BadPattern(f"the pattern has more than {MAX_ALTERNATIVES} alternatives")
    return found


def _expand_first_brace(pattern: str) -> list[str]:
    braces = BRACES.search(pattern)
    if braces is None:
        return [pattern]
    return [pattern[: braces.start()] + choice + pattern[braces.end() :] for choice in braces[1].split(",")]
