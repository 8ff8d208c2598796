"""Whether a program is on the allowlist and with which arguments, and what "allow always" stores. Only `settled` looks at files."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from tools_app.exec.gate.programs.registry import MULTI_CALL, READ_ONLY_PROGRAMS, canonical_names
from tools_app.exec.gate.shell.words import Word
from tools_app.exec.gate.types import AllowEntry, Executable, GateReason, Program

GLOB_CHARACTERS = re.compile(r"[*?\[]")
ANY_OPERANDS = "…"  # in a shape: any operands of a program that only reads


def resolve_entry(entry: AllowEntry) -> AllowEntry:
    """The entry with its path made real as far as it is literal, so that /bin/ls means /usr/bin/ls where it is the same file."""
    pattern = entry.pattern.strip()
    if not pattern.startswith("/"):
        return replace(entry, pattern=pattern)
    found = GLOB_CHARACTERS.search(pattern)
    if found is None:
        return replace(entry, pattern=os.path.realpath(pattern))
    directory, _, rest = pattern[: found.start()].rpartition("/")
    return replace(entry, pattern=f"{os.path.realpath(directory or '/').rstrip('/')}/{rest}{pattern[found.start() :]}")


def find_misses(program: Program, allow: Iterable[AllowEntry]) -> tuple[GateReason, ...]:
    """Why the allowlist does not let it start; empty when it does."""
    found = program.executable
    if found is None:
        return (GateReason("not-found", f"{program.name} was not found on the fixed PATH, or it is not certain which file it is."),)
    if found.distrust:
        return (GateReason("not-trusted", f"{program.name}: {found.distrust}, so it may be another program tomorrow."),)
    entries = [entry for entry in allow if matches(entry.pattern, found)]
    if not entries:
        return (GateReason("not-allowlisted", f"{program.name} ({found.realpath}) is not on the allowlist."),)
    if program.shape is not None and any(entry.shape is not None and matches_shape(program, entry.shape) for entry in entries):
        return program.standing  # a person has seen these very arguments, and not the files
    if all(entry.shape is not None for entry in entries):
        return (GateReason("other-arguments", f"{program.name} is on the allowlist with other arguments only."),)
    return (*program.standing, *program.doubts)


def covers(entry: AllowEntry, program: Program) -> bool:
    """Whether the entry means this program, and with these arguments where it names any."""
    means = program.executable is not None and matches(entry.pattern, program.executable)
    return means and (entry.shape is None or (program.shape is not None and matches_shape(program, entry.shape)))


def matches(pattern: str, executable: Executable) -> bool:
    if not pattern.startswith("/"):
        # A bare name is not a pattern: `*` would be everything.
        return bool(pattern) and pattern == executable.bare
    if os.path.basename(executable.realpath) in MULTI_CALL:
        return False  # its path says nothing about which of its programs is meant
    return _compile_glob(pattern).fullmatch(executable.realpath) is not None


@lru_cache(maxsize=4096)
def _compile_glob(glob: str) -> re.Pattern[str]:
    if ".." in glob.split("/"):
        return re.compile(r"(?!)")
    pieces: list[str] = []
    for piece in re.split(r"(\*+|\?|\[[^\]/]+\])", glob):
        if piece.startswith("*"):
            pieces.append("[^/]*")
        elif piece == "?":
            pieces.append("[^/]")
        elif piece.startswith("[") and len(piece) > 2:
            inverted = piece[1] in "!^"
            pieces.append(
                f"(?!/)[{'^' if inverted else ''}{re.escape(piece[2 if inverted else 1 : -1]).replace(chr(92) + '-', '-')}]"
            )
        else:
            pieces.append(re.escape(piece))
    return re.compile("".join(pieces))


def make_shape(bases: Sequence[str], words: Iterable[Word], *, certain: bool) -> tuple[str, ...] | None:
    """The arguments as "allow always" stores them. Exactly these words; only of programs that read by all names, any operands."""
    texts = [word.text for word in words]
    if certain and canonical_names(*bases) <= READ_ONLY_PROGRAMS:
        chosen = [text for text in texts if text is not None and text.startswith("-")]
        if len(chosen) == len(texts):
            return tuple(chosen)
        return None if any(word is None for word in texts) else (*chosen, ANY_OPERANDS)
    return None if None in texts else tuple(text for text in texts if text is not None)


def matches_shape(program: Program, shape: tuple[str, ...]) -> bool:
    return program.shape == shape or (shape[-1:] == (ANY_OPERANDS,) and program.shape == shape[:-1])
