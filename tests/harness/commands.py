"""For tests of commands: wishes for the scripted model, rules, and whether anything of a command is left on this machine."""

import itertools
import json
import os
from pathlib import Path
from typing import Any

from tools_app.models import Command, ExecRule

_numbers = itertools.count(1)


def wish(*calls: dict[str, Any], tool: str = "exec", then: str = "done", **arguments: Any) -> str:
    """One call after the other, then words."""
    return _script([{"tool": tool, **each} for each in calls or [arguments]], then)


def wish_at_once(*calls: dict[str, Any], then: str = "done") -> str:
    """Several commands of one turn."""
    return _script([{"tool": "exec", "parallel": int(number > 0), **each} for number, each in enumerate(calls)], then)


def _script(calls: list[dict[str, Any]], then: str) -> str:
    markers = []
    for call in calls:
        head = f"tool={call.pop('tool')}" + (" parallel=1" if call.pop("parallel", 0) else "")
        markers.append(f"[[{head} args={json.dumps(call)}]]")
    return " ".join([*markers, f"[[text={then}]]"])


def rule(**says: Any) -> ExecRule:
    return ExecRule.objects.update_or_create(scope="installation", subject="", defaults=says)[0]


def run_everything() -> ExecRule:
    return rule(security="full", ask="off", unsafe_without_isolation=True)


def ask_first() -> ExecRule:
    return rule(security="allowlist", ask="on-miss")


def long_sleep() -> str:
    """A length that no other process of this machine sleeps for."""
    return f"{3000 + next(_numbers)}.{os.getpid()}"


def left_of(mark: str) -> list[int]:
    """Processes that have this word among their own, in whatever namespace."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def command_of(run: Any) -> Command:
    return Command.objects.get(run=run)
