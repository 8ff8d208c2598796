"""The words of the exec gate: what is asked, what was found, what was decided. Plain values; no I/O, no rules."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Security = Literal["deny", "allowlist", "full"]
Ask = Literal["off", "on-miss", "always"]
Effect = Literal["allow", "ask", "deny"]
PartKind = Literal["program", "builtin", "argument", "operator", "redirect", "assignment", "substitution", "text"]


def split_names(text: str) -> frozenset[str]:
    """A set of names written as one text: these lists are long, and people have to read them."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class AllowEntry:
    """One allowlisted program: a real path, a glob whose `*` does not cross `/`, or a bare name found through the fixed PATH."""

    pattern: str
    shape: tuple[str, ...] | None = None  # None: any arguments that the argument rules call safe


@dataclass(frozen=True, slots=True)
class GateRules:
    security: Security
    ask: Ask
    allow: tuple[AllowEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecContext:
    """Where the line would run. All paths are real ones, as the host sees them."""

    cwd: Path
    writable: tuple[Path, ...]  # the workspace first; writes elsewhere ask
    search: tuple[Path, ...]  # the fixed PATH
    mount_point: Path | None = None  # the name of the workspace inside a sandbox, such as /workspace


@dataclass(frozen=True, slots=True)
class GateReason:
    """Why it is not simply allowed: a code for programs, words for people."""

    code: str
    words: str


@dataclass(frozen=True, slots=True)
class Executable:
    name: str  # as the line writes it
    path: str  # where it was found
    realpath: str
    identity: str  # device:inode:size:mtime, and the SHA-256 where somebody else than root could change the file
    bare: str = ""  # the name under which the fixed PATH leads to this very file
    distrust: str = ""  # why it can never match the allowlist; empty when nothing speaks against it


@dataclass(frozen=True, slots=True)
class Script:
    """A file whose content the line would run, as far as the line or its program says which."""

    path: str  # real
    identity: str  # the SHA-256 of its content; of large files device, inode, size and times; empty: it is not there


@dataclass(frozen=True, slots=True)
class LinePart:
    """A stretch of the line, in characters, and what it is."""

    begin: int
    end: int
    kind: PartKind
    note: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """One start of a program, wherever in the line it stands."""

    name: str
    arguments: tuple[str | None, ...]  # None: known only when the line runs
    executable: Executable | None
    doubts: tuple[GateReason, ...] = ()  # about its arguments; an entry with this very shape lifts them
    standing: tuple[GateReason, ...] = ()  # about files as they are now, which others can change; no entry lifts them
    shape: tuple[str, ...] | None = None  # what "allow always" would store
    never_always: str = ""  # why "allow always" is not offered for it


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a line would do, whatever the rules are."""

    line: str
    argv: tuple[str, ...] | None = None  # of a single, fully literal command: it can be started without a shell
    programs: tuple[Program, ...] = ()
    executables: tuple[Executable, ...] = ()
    scripts: tuple[Script, ...] = ()
    doubts: tuple[GateReason, ...] = ()
    refused: tuple[GateReason, ...] = ()  # by the byte filter or the blocklist: no rule allows it
    parts: tuple[LinePart, ...] = ()
    writes: tuple[str, ...] = ()  # literal paths it writes to
    touches: tuple[str, ...] = ()  # other hints: "network", "other processes"
    unread: bool = False  # it could not be taken apart, so the blocklist says nothing about it


@dataclass(frozen=True, slots=True)
class GateVerdict:
    effect: Effect
    reasons: tuple[GateReason, ...]
    analysis: Analysis
