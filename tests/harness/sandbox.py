"""Real commands for tests: run one in a sandbox, to its end, and look for what it left.

Whatever a test tries to break must be something of its own. A check that turns red would otherwise break the machine it runs on.
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

PATIENCE = 60.0  # a guard against hangs
# Forks at most 200 times, all asleep, and counts how often it may.
FORKS = """
import os, signal
count = 0
for _ in range(200):
    try: child = os.fork()
    except OSError: break
    if child == 0: signal.pause()
    count += 1
print(count)
"""
SHUT_IN = (SandboxLevel.LANDLOCK, SandboxLevel.BWRAP)


@dataclass
class Result:
    ended: ProcessResult
    printed: CollectedOutput

    @property
    def out(self) -> str:
        return self.printed.stdout

    @property
    def err(self) -> str:
        return self.printed.stderr


class Shell:
    """A workspace, a place outside it with a secret, and a state directory that nobody may see."""

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
        return replace(SpawnRequest(line, self.workspace, env, sandbox, PATIENCE), **changed)

    async def run(self, level: SandboxLevel, line: str, **changed: Any) -> Result:
        """To its end, with nothing on stdin."""
        running = await start_process(self.spawn(level, line, **changed))
        running.close_stdin()
        collector = OutputCollector()
        async for chunk in running.output():
            collector.feed(chunk)
        return Result(await running.wait(), collector.collected())


def processes_marked(marker: str) -> list[int]:
    """Those that have it in their environment or on their command line, in whatever namespace and session they are."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            said = Path(f"/proc/{entry.name}/environ").read_bytes() + Path(f"/proc/{entry.name}/cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in said:
            found.append(int(entry.name))
    return found


def eventually(condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


async def soon(condition: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    return await asyncio.to_thread(eventually, condition, seconds)
