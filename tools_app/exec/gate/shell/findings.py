"""Findings of the walk through a syntax tree: commands, redirections, doubts."""

from dataclasses import dataclass, field

from clawsite.infra.reasons import Reason
from tools_app.exec.gate.shell.directories import Cwds
from tools_app.exec.gate.shell.words import Word
from tools_app.exec.gate.types import PartKind


@dataclass(slots=True)
class ShellCommand:
    name: Word
    arguments: tuple[Word, ...]
    cwds: Cwds
    upstream: "tuple[ShellCommand, ...]"  # commands whose output it reads through pipes
    nested_names: frozenset[str] = frozenset()  # names of the commands inside its substitutions
    builtin: bool = False
    once: bool = True  # not in a loop


@dataclass(slots=True)
class Redirection:
    target: Word
    cwds: Cwds
    command: ShellCommand | None = None  # the simple command whose output goes there; None if there are several


@dataclass(slots=True)
class WalkResult:
    commands: list[ShellCommand] = field(default_factory=list)
    writes: list[Redirection] = field(default_factory=list)
    doubts: list[Reason] = field(default_factory=list)
    marks: list[tuple[int, int, PartKind, str]] = field(default_factory=list)  # in bytes
    refused: list[Reason] = field(default_factory=list)
    only_command: bool = False  # a single simple command with nothing around it


class TooManyCommands(Exception):
    """More commands than a person would review."""
