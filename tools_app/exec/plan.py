"""The plan of one command: everything a person agrees to, immutable, with one hash over all of it. Pure."""

import hashlib
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

import orjson

from tools_app.exec.gate.verdict import Analysis, Executable, Script

FIELDS_ADDED_LATER = frozenset({"analysis_hash", "scripts"})  # not in rows from before there were any, which keep their hash


@dataclass(frozen=True)  # no slots: the hash is computed once and kept
class ExecPlan:
    """Which line runs where, with which programs, in which environment and isolation, for whom.

    The policy version is not part of it: an unrelated edit does not void what waits.
    """

    line: str
    argv: tuple[str, ...] | None  # of a single command in plain words, for people; bash reads the line
    cwd: str  # real path
    environment_hash: str
    executables: tuple[Executable, ...]
    tool: str
    agent: str
    session: str
    run: int
    call: str
    level: int  # of isolation
    workspace: str
    access: str
    home: str  # a directory of the sandbox's own beside the workspace; empty: none that outlives the command
    network: bool
    background: bool
    pty: bool
    timeout_s: float
    input_to: str = ""  # the line is no command but typed into this one, which runs already
    analysis_hash: str = ""  # of what the gate found; empty: it was not looked at
    scripts: tuple[Script, ...] = ()  # files whose content it runs, as they were

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256(orjson.dumps(self.to_json(), option=orjson.OPT_SORT_KEYS)).hexdigest()

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value or name not in FIELDS_ADDED_LATER}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ExecPlan":
        values = {each.name: data[each.name] for each in fields(cls) if each.name in data or each.name not in FIELDS_ADDED_LATER}
        values["argv"] = None if values["argv"] is None else tuple(values["argv"])
        values["executables"] = tuple(Executable(**each) for each in values["executables"])
        values["scripts"] = tuple(Script(**each) for each in values.get("scripts", ()))
        return cls(**values)

    def differences(self, other: "ExecPlan") -> list[str]:
        """The names of what is not the same, for people."""
        return [each.name for each in fields(self) if getattr(self, each.name) != getattr(other, each.name)]


@dataclass(frozen=True, slots=True)
class PlannedCommand:
    """A plan and what its line was found to be made of."""

    plan: ExecPlan
    analysis: Analysis
