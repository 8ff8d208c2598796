"""Match programs and arguments against the allowlist, and build what "always allow" stores. Only `resolve_entry` reads files."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from clawsite.infra.reasons import Reason, gettext_noop, register_reasons
from tools_app.exec.gate.programs.registry import MULTI_CALL, READ_ONLY_PROGRAMS, canonical_names
from tools_app.exec.gate.shell.words import Word
from tools_app.exec.gate.types import AllowEntry, Executable, Program

GLOB_CHARACTERS = re.compile(r"[*?\[]")
register_reasons(
    {
        "gate.not-found": gettext_noop("{program} was not found on the fixed PATH, or its file can't be determined."),
        "gate.not-trusted": gettext_noop("{program} could be replaced by another program: {distrust}."),
        "gate.not-allowlisted": gettext_noop("{program} ({path}) is not on the allowlist."),
        "gate.other-arguments": gettext_noop("{program} is on the allowlist only with other arguments."),
    }
)

ANY_OPERANDS = "…"  # in a shape: any operands of a read-only program


def resolve_entry(entry: AllowEntry) -> AllowEntry:
    """Resolve the literal part of the entry's path, so that /bin/ls means /usr/bin/ls if they are the same file."""
    pattern = entry.pattern.strip()
    if not pattern.startswith("/"):
        return replace(entry, pattern=pattern)
    match = GLOB_CHARACTERS.search(pattern)
    if match is None:
        return replace(entry, pattern=os.path.realpath(pattern))
    directory, _, rest = pattern[: match.start()].rpartition("/")
    return replace(entry, pattern=f"{os.path.realpath(directory or '/').rstrip('/')}/{rest}{pattern[match.start() :]}")


def find_misses(program: Program, allow: Iterable[AllowEntry]) -> tuple[Reason, ...]:
    """Why the allowlist does not admit the program; empty if it does."""
    executable = program.executable
    if executable is None:
        return (Reason("gate.not-found", program=program.name),)
    if executable.distrust:
        return (Reason("gate.not-trusted", program=program.name, distrust=executable.distrust),)
    entries = [entry for entry in allow if matches(entry.pattern, executable)]
    if not entries:
        return (Reason("gate.not-allowlisted", program=program.name, path=executable.realpath),)
    if program.shape is not None and any(entry.shape is not None and matches_shape(program, entry.shape) for entry in entries):
        return program.standing  # an approver has seen these arguments, but not the files
    if all(entry.shape is not None for entry in entries):
        return (Reason("gate.other-arguments", program=program.name),)
    return (*program.standing, *program.doubts)


def covers(entry: AllowEntry, program: Program) -> bool:
    """Whether the entry matches this program and, if it lists arguments, these arguments."""
    matched = program.executable is not None and matches(entry.pattern, program.executable)
    return matched and (entry.shape is None or (program.shape is not None and matches_shape(program, entry.shape)))


def matches(pattern: str, executable: Executable) -> bool:
    if not pattern.startswith("/"):
        # A bare name is not a pattern: `*` would match everything.
        return bool(pattern) and pattern == executable.bare
    if os.path.basename(executable.realpath) in MULTI_CALL:
        return False  # the path of a multi-call binary does not say which program is meant
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
    """The arguments as "always allow" stores them: exactly these words; for read-only programs, the options and any operands."""
    texts = [word.text for word in words]
    if certain and canonical_names(*bases) <= READ_ONLY_PROGRAMS:
        chosen = [text for text in texts if text is not None and text.startswith("-")]
        if len(chosen) == len(texts):
            return tuple(chosen)
        return None if any(word is None for word in texts) else (*chosen, ANY_OPERANDS)
    return None if None in texts else tuple(text for text in texts if text is not None)


def matches_shape(program: Program, shape: tuple[str, ...]) -> bool:
    return program.shape == shape or (shape[-1:] == (ANY_OPERANDS,) and program.shape == shape[:-1])
