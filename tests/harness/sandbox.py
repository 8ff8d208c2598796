"""Run real commands in a sandbox and look for processes they left.

A test may only try to break its own files: if the sandbox fails, the command really does it.
"""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools_app.exec.environment import build_environment
from tools_app.exec.processes.output import CollectedOutput, OutputCollector
from tools_app.exec.processes.spawn import start_process
from tools_app.exec.sandbox.types import ProcessResult, Sandbox, SandboxLevel, SpawnRequest

TIMEOUT = 60.0  # seconds; only a guard against hangs
# Forks up to 200 sleeping processes and prints how many it could create.
COUNT_FORKS = """
import os, signal
count = 0
for _ in range(200):
    try: child = os.fork()
    except OSError: break
    if child == 0: signal.pause()
    count += 1
print(count)
"""
ISOLATED_LEVELS = (SandboxLevel.LANDLOCK, SandboxLevel.BWRAP)


@dataclass
class CommandResult:
    ended: ProcessResult
    printed: CollectedOutput

    @property
    def out(self) -> str:
        return self.printed.stdout

    @property
    def err(self) -> str:
        return self.printed.stderr


class Shell:
    """A workspace, a directory outside it with a secret, and a hidden state directory."""

    def __init__(self, above: Path) -> None:
        self.above = Path(os.path.realpath(above))
        self.workspace, self.outside, self.state = (self.above / name for name in ("workspace", "outside", "state"))
        for directory in (self.workspace, self.outside, self.state):
            directory.mkdir(parents=True, exist_ok=True)
        self.secret = self.outside / "secret"
        self.secret.write_text("a-secret-outside")

    def sandbox(self, level: SandboxLevel, **changed: Any) -> Sandbox:
        return replace(Sandbox(level, self.workspace, "rw", network=False, hidden=(self.state,)), **changed)

    def spawn(self, level: SandboxLevel, line: str, *, sandbox: Sandbox | None = None, **changed: Any) -> SpawnRequest:
        sandbox = sandbox or self.sandbox(level)
        env = build_environment(sandbox.home, pty=bool(changed.get("pty")))
        return replace(SpawnRequest(line, self.workspace, env, sandbox, TIMEOUT), **changed)

    async def run(self, level: SandboxLevel, line: str, **changed: Any) -> CommandResult:
        """Run a command to its end, with empty stdin."""
        running = await start_process(self.spawn(level, line, **changed))
        running.close_stdin()
        collector = OutputCollector()
        async for chunk in running.output():
            collector.feed(chunk)
        return CommandResult(await running.wait(), collector.collected())


def find_marked_processes(marker: str) -> list[int]:
    """Return processes with this text in their environment or command line, in any namespace and session."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = Path(f"/proc/{entry.name}/environ").read_bytes() + Path(f"/proc/{entry.name}/cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in text:
            found.append(int(entry.name))
    return found


def eventually(condition: Callable[[], bool], seconds: float = TIMEOUT) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


async def eventually_async(condition: Callable[[], bool], seconds: float = TIMEOUT) -> bool:
    return await asyncio.to_thread(eventually, condition, seconds)
