"""The plan of one command: everything a person approves, immutable, with a hash over all of it. No I/O."""

import hashlib
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

import orjson

from tools_app.exec.gate.verdict import Analysis, Executable, Script

FIELDS_ADDED_LATER = frozenset({"analysis_hash", "scripts"})  # missing in older rows, which keep their hash

CHANGES = {  # other fields: how or for what it was requested
    "line": "line",
    "argv": "line",
    "cwd": "directory",
    "environment_hash": "environment",
    "executables": "program",
    "analysis_hash": "findings",
    "scripts": "script",
    **dict.fromkeys(("level", "workspace", "access", "home", "network"), "sandbox"),
}


@dataclass(frozen=True)  # no slots: the hash is cached
class ExecPlan:
    """Which line runs, where and for whom, with which programs, environment and sandbox.

    The policy version is not part of it, so an unrelated edit does not cancel pending requests.
    """

    line: str
    argv: tuple[str, ...] | None  # of a single, fully literal command; only shown to people, bash gets the line
    cwd: str  # real path
    environment_hash: str
    executables: tuple[Executable, ...]
    tool: str
    agent: str
    session: str
    run: int
    call: str
    level: int  # sandbox level
    workspace: str
    access: str
    home: str  # the sandbox's own directory beside the workspace; empty if no home outlives the command
    network: bool
    background: bool
    pty: bool
    timeout_s: float
    input_to: str = ""  # set if the line is not a command but input for this running command
    analysis_hash: str = ""  # of the gate's findings; empty if the gate did not analyze the line
    scripts: tuple[Script, ...] = ()  # files whose content it runs, as of planning

    @cached_property
    def hash(self) -> str:
        return hashlib.sha256(orjson.dumps(self.to_json(), option=orjson.OPT_SORT_KEYS)).hexdigest()

    @property
    def depends_on_files(self) -> bool:
        return bool(self.scripts)

    def to_json(self) -> dict[str, Any]:
        values = asdict(self) | {"executables": [each.to_json() for each in self.executables]}
        return {name: value for name, value in values.items() if value or name not in FIELDS_ADDED_LATER}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "ExecPlan":
        values = {each.name: data[each.name] for each in fields(cls) if each.name in data or each.name not in FIELDS_ADDED_LATER}
        values["argv"] = None if values["argv"] is None else tuple(values["argv"])
        values["executables"] = tuple(map(Executable.from_json, values["executables"]))
        values["scripts"] = tuple(Script(**each) for each in values.get("scripts", ()))
        return cls(**values)

    def list_changes(self, other: "ExecPlan") -> list[str]:
        """What differs from another plan. Each has a text: changed.directory and so on."""
        differing = [each.name for each in fields(self) if getattr(self, each.name) != getattr(other, each.name)]
        return list(dict.fromkeys(CHANGES.get(name, "request") for name in differing))


@dataclass(frozen=True, slots=True)
class PlannedCommand:
    """A plan and the analysis of its line."""

    plan: ExecPlan
    analysis: Analysis
