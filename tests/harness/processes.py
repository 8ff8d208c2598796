"""A real process under test that can be killed, suspended and restarted. Its log is kept in a file."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

PROJECT = Path(__file__).resolve().parents[2]
TIMEOUT = 60.0  # seconds; only a guard against hangs: a loaded machine takes some seconds to start a process
TAIL = 6_000  # characters of the log shown when a test fails
# Runs another program so that it ends with the tests, even if those are killed.
END_WITH_PARENT = (
    "-c",
    "import os, sys; from clawsite.infra.process import child; child.end_with_parent(); os.execvp(sys.argv[1], sys.argv[1:])",
)


class Process:
    """Can be killed and started again any number of times. `arguments` are passed to Python."""

    def __init__(
        self, name: str, arguments: Sequence[str], *, env: Mapping[str, str], log: Path, ready: Callable[["Process"], bool]
    ) -> None:
        self.name, self.log = name, log
        self.env = dict(env)
        self._arguments, self._ready = arguments, ready
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._popen is not None, f"{self.name} was never started"
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def spawn(self) -> None:
        """Start without waiting. Main thread only: the kernel ends a child together with the thread that created it."""
        assert not self.alive, f"{self.name} is running"
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                [sys.executable, *self._arguments],
                cwd=PROJECT,
                env={**self.env, "CLAWSITE_PARENT_PID": str(os.getpid())},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def start(self) -> "Process":
        self.spawn()
        self.wait_ready()
        return self

    def is_ready(self) -> bool:
        if not self.alive:
            raise RuntimeError(f"{self.name} ended during startup:\n{self.tail()}")
        return self._ready(self)

    def wait_ready(self) -> None:
        give_up = time.monotonic() + TIMEOUT
        while not self.is_ready():
            if time.monotonic() > give_up:
                raise RuntimeError(f"{self.name} was not ready within {TIMEOUT:g} s:\n{self.tail()}")
            time.sleep(0.02)

    async def until_ready(self) -> None:
        """Like `wait_ready`, without blocking the event loop."""
        for _ in range(int(TIMEOUT / 0.02)):
            if self.is_ready():
                return
            await asyncio.sleep(0.02)
        raise RuntimeError(f"{self.name} was not ready within {TIMEOUT:g} s:\n{self.tail()}")

    def signal(self, number: int) -> None:
        if self.alive:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL and wait for the end. Also works on a suspended process."""
        if self._popen is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()
        if self._popen.stdin:
            self._popen.stdin.close()

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self) -> int:
        """Send SIGTERM, so that it drains. Returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        assert self._popen is not None
        try:
            return self._popen.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{self.name} did not end:\n{self.tail()}") from None

    def restart(self) -> "Process":
        self.kill()
        return self.start()

    def instruct(self, **faults: Any) -> None:
        """Send an instruction to a process started by tests/faults/faulty_process.py. Ignored if it is dead."""
        assert self._popen is not None
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._popen.stdin.write(json.dumps(faults).encode() + b"\n")
            self._popen.stdin.flush()

    def tail(self, characters: int = TAIL) -> str:
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""

    def report(self) -> tuple[str, str]:
        """Return title and end of the log, for a failed test."""
        return f"{self.name} (pid {self.pid if self._popen else 'none'})", self.tail()


def responds(url: str) -> Callable[[Process], bool]:
    """Ready when this URL returns 200."""

    def check(_: Process) -> bool:
        try:
            with urlopen(url, timeout=2) as response:
                return bool(response.status == 200)
        except (URLError, OSError):
            return False

    return check


def listens(port: int) -> Callable[[Process], bool]:
    def check(_: Process) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    return check


def has_registered(process: Process) -> bool:
    """Ready when the worker has sent its first heartbeat."""
    from sessions_app.models import Worker

    return Worker.objects.filter(pid=process.pid).exists()
