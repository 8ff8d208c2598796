"""Commands of a run: prompts that make the fake model call `exec`, exec rules, and the processes left on this machine."""

import itertools
import json
import os
from pathlib import Path
from typing import Any

from tools_app.models import Command, ExecRule

_numbers = itertools.count(1)


def exec_prompt(*calls: dict[str, Any], tool: str = "exec", then: str = "done", **arguments: Any) -> str:
    """Return a prompt for these calls, one after the other, and then a text."""
    return _script([{"tool": tool, **each} for each in calls or [arguments]], then)


def parallel_exec_prompt(*calls: dict[str, Any], then: str = "done") -> str:
    """Return a prompt for several commands in one turn."""
    return _script([{"tool": "exec", "parallel": int(number > 0), **each} for number, each in enumerate(calls)], then)


def _script(calls: list[dict[str, Any]], then: str) -> str:
    markers = []
    for call in calls:
        head = f"tool={call.pop('tool')}" + (" parallel=1" if call.pop("parallel", 0) else "")
        markers.append(f"[[{head} args={json.dumps(call)}]]")
    return " ".join([*markers, f"[[text={then}]]"])


def set_exec_rule(**fields: Any) -> ExecRule:
    return ExecRule.objects.update_or_create(scope="installation", subject="", defaults=fields)[0]


def allow_all_commands() -> ExecRule:
    return set_exec_rule(security="full", ask="off", unsafe_without_isolation=True)


def require_approval() -> ExecRule:
    return set_exec_rule(security="allowlist", ask="on-miss")


def unique_sleep() -> str:
    """Return a sleep duration that no other process on this machine has, so that it can be found."""
    return f"{3000 + next(_numbers)}.{os.getpid()}"


def find_processes(argument: str) -> list[int]:
    """Return the IDs of all processes with this argument, in any namespace."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and argument.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def get_command(run: Any) -> Command:
    return Command.objects.get(run=run)
