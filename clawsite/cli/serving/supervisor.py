"""Keep child processes running and stop them in order, whatever they do.

Uses a small selector loop instead of asyncio: this process idles for months next to two others, and asyncio alone would double
its memory (18 MB instead of 10).
"""

import contextlib
import logging
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from clawsite.infra.process import child as process

log = logging.getLogger(__name__)

FIRST_DELAY = 0.2
MAX_DELAY = 10.0
STABLE_SECONDS = 10.0  # a child that has run this long started successfully, so its restart delay is reset


@dataclass
class Child:
    name: str
    argv: Sequence[str]
    pass_fds: Sequence[int]
    process: "subprocess.Popen[bytes] | None" = None
    started_at: float = 0.0
    start_at: float = 0.0
    delay: float = FIRST_DELAY


@dataclass
class Supervisor:
    env: dict[str, str]
    drain_seconds: float
    on_stop: Callable[[], None]
    exit_code: int = 0
    _children: list[Child] = field(default_factory=list)
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _timers: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    _kill_at: float | None = None

    def add(self, name: str, argv: Sequence[str], pass_fds: Sequence[int] = ()) -> Child:
        """Start a child process, and restart it whenever it exits."""
        child = Child(name, argv, pass_fds)
        self._children.append(child)
        return child

    def watch(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the descriptor is readable. At the end of the stream, the callback must call `unwatch`."""
        self._selector.register(descriptor, selectors.EVENT_READ, callback)

    def unwatch(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call `callback` once after this time, unless stopping by then."""
        self._timers.append((time.monotonic() + seconds, callback))

    @property
    def stopping(self) -> bool:
        return self._kill_at is not None

    def run(self) -> int:
        """Run until a signal or `stop`, then until every child has exited. Return the exit code."""
        with self._signals():
            while not self.stopping or any(child.process for child in self._children):
                self._start_due()
                for key, _ in self._selector.select(self._next_timeout()):
                    key.data()
                self._reap()
                self._call_due()
                if self._kill_at is not None and time.monotonic() >= self._kill_at:
                    self._kill_at += 1
                    self._signal_all(signal.SIGKILL)
        return self.exit_code

    def stop(self, code: int = 0) -> None:
        """Send SIGTERM to every child; those still running after `drain_seconds` are killed."""
        if self.stopping:
            return
        self.exit_code = code
        self._kill_at = time.monotonic() + self.drain_seconds
        self.on_stop()
        self._signal_all(signal.SIGTERM)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Write signals to a pipe, so that only the loop handles them."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        before_fd = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        watched = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD}
        if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
            watched.discard(signal.SIGHUP)  # started by nohup: keep running when the terminal closes
        before = {number: signal.signal(number, lambda *_: None) for number in watched}
        self.watch(reader, lambda: self._handle_signals(os.read(reader, 512)))
        try:
            yield
        finally:
            self.unwatch(reader)
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(before_fd)
            os.close(reader)
            os.close(writer)

    def _handle_signals(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGCHLD:
                continue
            if self.stopping:
                log.warning("second stop signal: killing the remaining processes")
                self._kill_at = time.monotonic()
            else:
                log.info("stopping; runs in progress are handed over. Press Ctrl-C again to kill immediately")
                self.stop()

    def _start_due(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if not self.stopping and child.process is None and child.start_at <= now:
                child.process = process.spawn(child.argv, env=self.env, pass_fds=child.pass_fds)
                child.started_at = now

    def _reap(self) -> None:
        now = time.monotonic()
        for child in self._children:
            if child.process is None or child.process.poll() is None:
                continue
            code, child.process = child.process.returncode, None
            if self.stopping:
                continue
            if now - child.started_at >= STABLE_SECONDS:
                child.delay = FIRST_DELAY
            outcome = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
            log.warning("%s %s; restarting it in %g s", child.name, outcome, child.delay)
            child.start_at = now + child.delay
            child.delay = min(child.delay * 2, MAX_DELAY)

    def _call_due(self) -> None:
        now = time.monotonic()
        due = [timer for timer in self._timers if timer[0] <= now and not self.stopping]
        for timer in due:
            self._timers.remove(timer)
            timer[1]()

    def _next_timeout(self) -> float | None:
        """Return the seconds until the next start, call or kill is due, or None if there is none."""
        due = [child.start_at for child in self._children if child.process is None and not self.stopping]
        due += [at for at, _callback in self._timers if not self.stopping]
        if self._kill_at is not None:
            due.append(self._kill_at)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _signal_all(self, number: int) -> None:
        for child in self._children:
            if child.process is not None and child.process.poll() is None:
                child.process.send_signal(number)
