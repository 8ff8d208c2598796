"""Data types of the exec gate: input, findings, verdict. No I/O, no rules."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from clawsite.infra.reasons import LEGACY, Reason, ReasonJson

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


def public_code(reason: Reason) -> str:
    """The code that clients know: `write` for the reason gate.write.redirection."""
    if reason.code == LEGACY:  # an old row, or a code of a newer version
        return str(reason.params.get("code", reason.params["text"]))
    return reason.code.split(".")[1]


def read_reason(stored: ReasonJson) -> Reason:
    """Read a reason stored with an approval request. Old rows have a text instead of parameters; it is kept as it is."""
    return Reason(LEGACY, code=stored["code"], text=stored["words"]) if "words" in stored else Reason.from_json(stored)


@dataclass(frozen=True, slots=True)
class Executable:
    name: str  # as written in the line
    path: str  # where it was found
    realpath: str
    identity: str  # device:inode:size:mtime, and the SHA-256 if anyone but root could change the file
    bare: str = ""  # the name under which the fixed PATH finds this file
    distrust: Reason | None = None  # why it can never match the allowlist; None if it can

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"distrust": self.distrust.to_json() if self.distrust else ""}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "Executable":
        return cls(**{**stored, "distrust": Reason.from_json(stored["distrust"]) if stored.get("distrust") else None})


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
    doubts: tuple[Reason, ...] = ()  # about its arguments; lifted by an entry with exactly this shape
    standing: tuple[Reason, ...] = ()  # about files as they are now, which others can change; not lifted by any entry
    shape: tuple[str, ...] | None = None  # what "always allow" would store
    never_always: Reason | None = None  # why "always allow" is not offered


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a line would do, regardless of the rules."""

    line: str
    argv: tuple[str, ...] | None = None  # of a single, fully literal command, which could start without a shell
    programs: tuple[Program, ...] = ()
    executables: tuple[Executable, ...] = ()
    scripts: tuple[Script, ...] = ()
    doubts: tuple[Reason, ...] = ()
    refused: tuple[Reason, ...] = ()  # by the character filter or the blocklist: no rule can allow it
    parts: tuple[LinePart, ...] = ()
    writes: tuple[str, ...] = ()  # literal paths it writes to
    access_hints: tuple[str, ...] = ()  # other access: "network", "other processes"
    unparsed: bool = False  # the line could not be parsed, so the blocklist does not apply


@dataclass(frozen=True, slots=True)
class GateVerdict:
    effect: Effect
    reasons: tuple[Reason, ...]
    analysis: Analysis
