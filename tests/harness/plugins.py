"""Plugins for tests: distributions written into a directory on the path, as `pip install` leaves them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.policies import restore_policy

ECHO_PLUGIN = """
from tools_app.core.definition import ToolArgs, text_result, tool


class Args(ToolArgs):
    word: str = ""


@tool("{tool}", args=Args)
def make(env):
    '''Say a word back.'''

    async def perform(args, call):
        return text_result("{tool} says " + args.word)

    return perform


tools = [make]
"""


SLEEP_PLUGIN = """
import asyncio
import os

from tools_app.core.definition import ToolArgs, text_result, tool


class Args(ToolArgs):
    path: str


@tool("nap", args=Args)
def make(env):
    '''Sleep in a process and record its ID.'''

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


def install_plugin(folder: Path, name: str, code: str, *, version: str = "1.2", point: str = "") -> None:
    """Write a distribution clawsite-NAME whose entry point NAME is the module NAME_plugin with this code."""
    module = f"{name.replace('-', '_')}_plugin"
    (folder / f"{module}.py").write_text(code)
    info = folder / f"clawsite_{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: clawsite-{name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[clawsite.plugins]\n{name} = {point or module}\n")


def unload_plugins(folder: Path) -> None:
    """Forget all imported plugins, as after a restart."""
    from tools_app.sources import plugins
    from tools_app.sources import tools as source_tools

    plugins._imports.clear()
    source_tools.clear_caches()
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "") or "").startswith(str(folder)):
            del sys.modules[name]


def record_plugins() -> None:
    """Store what is installed, as a worker does."""
    from tools_app.sources import plugins
    from tools_app.sources import tools as source_tools

    plugins.record_plugins(plugins.list_installed(), source_tools.loaded_plugins())


@contextmanager
def sleep_plugin(folder: Path) -> "Iterator[SleepProcesses]":
    """Install a plugin whose tool sleeps in its own process, and allow it for agent main.

    The tool kills the process when it is stopped. Other processes need the folder in their PYTHONPATH.
    """
    from tools_app.models import Plugin
    from tools_app.policy_store import policies

    unload_plugins(folder)
    with pytest.MonkeyPatch.context() as patched, restore_policy():
        patched.syspath_prepend(str(folder))
        install_plugin(folder, "napping", SLEEP_PLUGIN)
        record_plugins()
        Plugin.objects.filter(name="napping").update(enabled=True)
        record_plugins()
        policies.save_policy(scope="agent", subject="main", profile="full", also_allow=["nap"])
        yield SleepProcesses(folder / "pids")
    unload_plugins(folder)


class SleepProcesses:
    """The processes that the tool has started."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @property
    def prompt(self) -> str:
        """Makes the fake model call the tool."""
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
