"""kill -9 of the process that started a command leaves nothing behind, at every level, at any moment."""

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress

import pytest

from tests.harness.processes import PROJECT
from tests.harness.sandbox import eventually, find_marked_processes
from tests.unit.test_exec_spawn import RUNAWAYS
from tools_app.exec.sandbox.types import SandboxLevel

levels = pytest.mark.parametrize("level", list(SandboxLevel), ids=lambda level: level.label)

# Starts a command, reports it, and waits like a worker. {fault} is where a test inserts a fault.
PARENT = """
import asyncio, sys
from pathlib import Path
from django.conf import settings
settings.configure(USE_I18N=False)
from tests.harness.sandbox import Shell
from tools_app.exec.processes.spawn import start_process
from tools_app.exec.sandbox.types import SandboxLevel
{fault}
async def main():
    shell = Shell(Path(sys.argv[1]))
    level, marker, line = SandboxLevel(int(sys.argv[2])), sys.argv[3], sys.argv[4]
    spawn = shell.spawn(level, line, env={{"PATH": "/usr/bin:/bin", "MARKER": marker}})
    print("starting", flush=True)
    running = await start_process(spawn)
    async for chunk in running.output():
        print(chunk.data.decode(), end="", flush=True)
asyncio.run(main())
"""
NO_DIE_WITH_PARENT = "from tools_app.exec.sandbox import bwrap; bwrap.DIE_WITH_PARENT = ()"
# The guard does not notice its parent's death and does not check.
NO_GUARD = """
from tools_app.exec.sandbox import landlock
real = landlock.json.dumps
landlock.json = type("json", (), {{"dumps": staticmethod(lambda order: real(order | {{"guard": "{faulty}"}}))}})
"""
DEAF_GUARD = """
import os
def main(parent, argv, *, grace, become):
    child = os.fork()
    if child == 0:
        os.setsid()
        become(argv)
    return os.waitpid(child, 0)[1]
"""
FAULT_SECONDS = 3.0  # far more than the second within which they should be gone


def parent(above, level, marker, line, fault=""):
    code = PARENT.format(fault=fault)
    return subprocess.Popen(
        [sys.executable, "-c", code, str(above), str(int(level)), marker, line], cwd=PROJECT, stdout=subprocess.PIPE, text=True
    )


def left(marker, of):
    return [pid for pid in find_marked_processes(marker) if pid != of]


def end(marker):
    """Processes that a deliberate fault left behind must be killed here."""
    for pid in find_marked_processes(marker):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@levels
def test_killed_worker_leaves_no_processes(tmp_path, level):
    marker = f"marked-{uuid.uuid4().hex}"
    with parent(tmp_path, level, marker, RUNAWAYS) as process:
        while process.stdout.readline() != "started\n":
            assert process.poll() is None
        assert eventually(lambda: len(left(marker, process.pid)) >= 5)
        process.kill()
    assert eventually(lambda: not find_marked_processes(marker), seconds=30)


@pytest.mark.parametrize(("level", "fault"), [(SandboxLevel.BWRAP, NO_DIE_WITH_PARENT), (SandboxLevel.NONE, NO_GUARD)])
def test_processes_survive_killed_worker_without_parent_watch(tmp_path, level, fault):
    marker = f"marked-{uuid.uuid4().hex}"
    (tmp_path / "faulty").mkdir()
    (tmp_path / "faulty" / "guard.py").write_text(DEAF_GUARD)
    fault = fault.format(faulty=tmp_path / "faulty")
    try:
        with parent(tmp_path, level, marker, RUNAWAYS, fault) as process:
            while process.stdout.readline() != "started\n":
                assert process.poll() is None
            process.kill()
        assert not eventually(lambda: not find_marked_processes(marker), seconds=FAULT_SECONDS)
    finally:
        end(marker)


@levels
def test_worker_killed_while_starting_command_leaves_no_processes(tmp_path, level):
    """At any moment of the start: the sandbox half set up, the command waiting for `go`."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chosen = random.Random(seed)
    for _ in range(12):
        marker = f"marked-{uuid.uuid4().hex}"
        with parent(tmp_path, level, marker, f"sleep 600; : {marker}") as process:
            assert process.stdout.readline() == "starting\n"
            time.sleep(chosen.uniform(0, 0.04))
            process.kill()
        assert eventually(lambda: not find_marked_processes(marker), seconds=30), f"seed {seed}"  # noqa: B023
