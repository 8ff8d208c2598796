"""What the walk through a syntax tree finds: commands, redirections, doubts. Plain values."""

from dataclasses import dataclass, field

from tools_app.exec.gate.shell.directories import Cwds
from tools_app.exec.gate.shell.words import Word
from tools_app.exec.gate.types import PartKind, Reason


@dataclass(slots=True)
class Command:
    name: Word
    arguments: tuple[Word, ...]
    cwds: Cwds
    upstream: "tuple[Command, ...]"  # the commands whose output it reads through pipes
    within: frozenset[str] = frozenset()  # names of the commands in its own substitutions
    builtin: bool = False
    once: bool = True  # not in a loop


@dataclass(slots=True)
class Redirection:
    target: Word
    cwds: Cwds
    command: Command | None = None  # the simple command whose output goes there; None: that of several


@dataclass(slots=True)
class Walked:
    commands: list[Command] = field(default_factory=list)
    writes: list[Redirection] = field(default_factory=list)
    doubts: list[Reason] = field(default_factory=list)
    marks: list[tuple[int, int, PartKind, str]] = field(default_factory=list)  # in bytes
    refused: list[Reason] = field(default_factory=list)
    only_command: bool = False  # one simple command and nothing around it


class TooMuch(Exception):
    """More commands than anybody would read."""
