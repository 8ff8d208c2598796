"""One real process under test: started, killed, frozen, thawed, restarted by its handle; its log kept in a file."""

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
PATIENCE = 60.0  # a guard against hangs, not a promise: a loaded machine starts a process in some seconds
TAIL = 6_000  # characters of a log that are shown when a test fails
# Runs a program that knows nothing of parents, so that it ends with the tests even if those are killed.
ENDS_WITH_US = (
    "-c",
    "import os, sys; from clawsite.infra.process import child; child.end_with_parent(); os.execvp(sys.argv[1], sys.argv[1:])",
)


class Process:
    """It may be killed and started again any number of times. `arguments` are those of our Python."""

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
        """Begin to start. From the main thread only: the kernel ends a child together with the thread that made it."""
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
            raise RuntimeError(f"{self.name} ended while it was awaited:\n{self.tail()}")
        return self._ready(self)

    def wait_ready(self) -> None:
        give_up = time.monotonic() + PATIENCE
        while not self.is_ready():
            if time.monotonic() > give_up:
                raise RuntimeError(f"{self.name} was not ready within {PATIENCE:g} s:\n{self.tail()}")
            time.sleep(0.02)

    async def until_ready(self) -> None:
        """The same without holding up the event loop."""
        for _ in range(int(PATIENCE / 0.02)):
            if self.is_ready():
                return
            await asyncio.sleep(0.02)
        raise RuntimeError(f"{self.name} was not ready within {PATIENCE:g} s:\n{self.tail()}")

    def signal(self, number: int) -> None:
        if self.alive:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone; works on a frozen one too."""
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
        """SIGTERM: it drains and ends; -> its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        assert self._popen is not None
        try:
            return self._popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{self.name} did not end:\n{self.tail()}") from None

    def restart(self) -> "Process":
        self.kill()
        return self.start()

    def order(self, **what: Any) -> None:
        """Tell a puppet (tests/faults/faulty_process.py) what to do; one that is dead by now does not hear it."""
        assert self._popen is not None
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._popen.stdin.write(json.dumps(what).encode() + b"\n")
            self._popen.stdin.flush()

    def tail(self, characters: int = TAIL) -> str:
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""

    def report(self) -> tuple[str, str]:
        """(title, end of the log), for a test that failed."""
        return f"{self.name} (pid {self.pid if self._popen else 'none'})", self.tail()


def answers(url: str) -> Callable[[Process], bool]:
    """Ready when that address answers 200."""

    def ask(_: Process) -> bool:
        try:
            with urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False

    return ask


def listens(port: int) -> Callable[[Process], bool]:
    def ask(_: Process) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    return ask


def has_registered(process: Process) -> bool:
    """A worker is in the register, so it has its first heartbeat and claims."""
    from sessions_app.models import Worker

    return Worker.objects.filter(pid=process.pid).exists()
