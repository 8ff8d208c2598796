"""A plugin whose tool sleeps in a process of its own and ends it when it is stopped: something to stop that one can look for."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.plugins import forget, install, note
from tests.harness.policies import policy_restored

CODE = """
import asyncio
import os

from tools_app.core.definition import ToolArgs, text_result, tool


class Args(ToolArgs):
    path: str


@tool("nap", args=Args)
def make(env):
    '''Sleep, and write down who sleeps.'''

    async def perform(args, call):
        process = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
        with open(args.path, "a") as file:
            file.write(f"{process.pid}\\n")
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                os.killpg(process.pid, 9)
                await process.wait()
        return text_result("slept")

    return perform


tools = [make]
"""


@contextmanager
def napping(folder: Path) -> "Iterator[Naps]":
    """The plugin installed, switched on and allowed for agent main. Other processes need the folder in their PYTHONPATH."""
    from tools_app.models import Plugin
    from tools_app.policy_store import policies

    forget(folder)
    with pytest.MonkeyPatch.context() as patched, policy_restored():
        patched.syspath_prepend(str(folder))
        install(folder, "napping", CODE)
        note()
        Plugin.objects.filter(name="napping").update(enabled=True)
        note()
        policies.save_policy(scope="agent", subject="main", profile="full", also_allow=["nap"])
        yield Naps(folder / "pids")
    forget(folder)


class Naps:
    """The processes that the tool has started."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @property
    def wish(self) -> str:
        """For the fake model: it asks for the tool."""
        return f'[[tool=nap args={{"path":"{self.file}"}}]]'

    @property
    def started(self) -> list[int]:
        return [int(line) for line in self.file.read_text().split()] if self.file.exists() else []

    @property
    def alive(self) -> list[int]:
        return [pid for pid in self.started if _is_alive(pid)]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
