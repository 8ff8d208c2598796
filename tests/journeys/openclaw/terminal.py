"""A program in its own terminal: its screen is read as text, and keys are typed into it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

SIZE = struct.pack("HHHH", 45, 110, 0, 0)  # rows, columns
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class Terminal:
    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, SIZE)
        self._process = subprocess.Popen(
            command, env={**env, "TERM": "xterm-256color"}, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self._raw = b""

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._ours)

    @property
    def shown(self) -> str:
        """Everything ever displayed, without colors and cursor movements."""
        return ESCAPES.sub("", self._raw.decode(errors="replace"))

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def wait_for(self, words: str, seconds: float) -> None:
        """Wait until the texts are displayed; earlier output counts too."""
        end = time.monotonic() + seconds
        while words not in self.shown:
            left = end - time.monotonic()
            assert left > 0, f"{words!r} was not shown within {seconds} s, but\n{self.shown[-3000:]}"
            readable, _, _ = select.select([self._ours], [], [], min(left, 1.0))
            if readable:
                try:
                    self._raw += os.read(self._ours, 65536)
                except OSError:  # the program has ended
                    raise AssertionError(f"it ended without {words!r}:\n{self.shown[-3000:]}") from None
