"""Data types of the exec gate: input, findings, verdict. No I/O, no rules."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Security = Literal["deny", "allowlist", "full"]
Ask = Literal["off", "on-miss", "always"]
Effect = Literal["allow", "ask", "deny"]
PartKind = Literal["program", "builtin", "argument", "operator", "redirect", "assignment", "substitution", "text"]


def split_names(text: str) -> frozenset[str]:
    """Split a string into a set of names. Keeps the long lists readable."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class AllowEntry:
    """One allowlisted program: a real path, a glob whose `*` does not cross `/`, or a bare name found through the fixed PATH."""

    pattern: str
    shape: tuple[str, ...] | None = None  # None: any arguments that the argument rules consider safe


@dataclass(frozen=True, slots=True)
class GateRules:
    security: Security
    ask: Ask
    allow: tuple[AllowEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecContext:
    """Where the line would run. All paths are resolved host paths."""

    cwd: Path
    writable: tuple[Path, ...]  # the workspace first; writing elsewhere needs approval
    search: tuple[Path, ...]  # the fixed PATH
    mount_point: Path | None = None  # path of the workspace inside a sandbox, such as /workspace


@dataclass(frozen=True, slots=True)
class GateReason:
    """Why a line isn't allowed outright: a code for programs, a sentence for people. Both are part of the analysis hash."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Executable:
    name: str  # as written in the line
    path: str  # where it was found
    realpath: str
    identity: str  # device:inode:size:mtime, and the SHA-256 if anyone but root could change the file
    bare: str = ""  # the name under which the fixed PATH finds this file
    distrust: str = ""  # why it can never match the allowlist; empty if it can


@dataclass(frozen=True, slots=True)
class Script:
    """A file whose content the line would run, as far as it is known from the line and the program."""

    path: str  # resolved
    identity: str  # SHA-256 of the content; for large files device, inode, size and times; empty if missing


@dataclass(frozen=True, slots=True)
class LinePart:
    """A range of the line, in characters, and its kind."""

    begin: int
    end: int
    kind: PartKind
    note: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """One program start, anywhere in the line."""

    name: str
    arguments: tuple[str | None, ...]  # None: only known at run time
    executable: Executable | None
    doubts: tuple[GateReason, ...] = ()  # about its arguments; lifted by an entry with exactly this shape
    standing: tuple[GateReason, ...] = ()  # about files as they are now, which others can change; not lifted by any entry
    shape: tuple[str, ...] | None = None  # what "always allow" would store
    never_always: str = ""  # why "always allow" is not offered


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a line would do, regardless of the rules."""

    line: str
    argv: tuple[str, ...] | None = None  # of a single, fully literal command, which could start without a shell
    programs: tuple[Program, ...] = ()
    executables: tuple[Executable, ...] = ()
    scripts: tuple[Script, ...] = ()
    doubts: tuple[GateReason, ...] = ()
    refused: tuple[GateReason, ...] = ()  # by the character filter or the blocklist: no rule can allow it
    parts: tuple[LinePart, ...] = ()
    writes: tuple[str, ...] = ()  # literal paths it writes to
    access_hints: tuple[str, ...] = ()  # other access: "network", "other processes"
    unparsed: bool = False  # it could not be parsed, so the blocklist does not apply


@dataclass(frozen=True, slots=True)
class GateVerdict:
    effect: Effect
    reasons: tuple[GateReason, ...]
    analysis: Analysis
