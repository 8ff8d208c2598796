"""A running command: its output, its input and its end. Created by `spawn.start_process`, on the event loop.

Back-pressure: unread output stays in the pipe, and a full pipe blocks the command, until its timeout at the latest. At most
MAX_QUEUED_CHUNKS chunks are held here. `wait` does not require anyone to read.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tools_app.exec.processes import terminal
from tools_app.exec.processes.terminal_keys import encode_keys
from tools_app.exec.sandbox.types import EndedBy, OutputChunk, OutputStream, ProcessResult, SandboxLevel, SpawnRequest

CHUNK_BYTES = 64 * 1024  # capacity of a pipe
MAX_QUEUED_CHUNKS = 8
CHECK_SECONDS = 0.5  # how often the free disk space is checked
GUARD_TIMEOUT_SECONDS = 3.0  # for a guard to end its tree, before the guard itself is killed


class NoTerminal(Exception):
    """Sending keys and resizing require a command that was started with a terminal."""


class RunningProcess:
    """`pid` is the outermost process, the guard or bubblewrap: when it ends, everything has ended."""

    def __init__(
        self,
        spawn: SpawnRequest,
        process: "subprocess.Popen[bytes]",
        streams: Mapping[OutputStream, int],
        stdin: int,
        opened: ExitStack,
    ) -> None:
        self.pid = process.pid
        self._spawn, self._process, self._opened = spawn, process, opened
        self._stdin: int | None = stdin
        self._began = time.monotonic()
        self._ended_by: EndedBy = "itself"
        self._gone = asyncio.Event()
        self._waiting: set[asyncio.Future[None]] = set()
        self._queue: asyncio.Queue[OutputChunk] = asyncio.Queue(MAX_QUEUED_CHUNKS)
        self._all_read = asyncio.gather(*(self._read(stream, descriptor) for stream, descriptor in streams.items()))
        self._watching = asyncio.create_task(self._watch())

    async def output(self) -> AsyncGenerator[OutputChunk, None]:
        """Yield output as it arrives, until the end. Single reader."""
        while True:
            get = asyncio.ensure_future(self._queue.get())
            try:
                await asyncio.wait((get, self._all_read), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not get.done():
                    get.cancel()
            if get.done() and not get.cancelled():
                yield get.result()
            elif self._queue.empty():
                return

    async def wait(self) -> ProcessResult:
        """Wait until the command and all its descendants are gone. Canceling the wait leaves it running."""
        return await asyncio.shield(self._watching)

    def kill(self) -> None:
        """Kill it with all its descendants. Output printed before that can still be read."""
        self._end("kill")

    async def write(self, data: bytes) -> None:
        """Write to its stdin. Raises BrokenPipeError if it no longer reads."""
        while data:
            if self._stdin is None:
                raise BrokenPipeError("stdin is closed")
            try:
                data = data[os.write(self._stdin, data) :]
            except BlockingIOError:
                await self._until_ready(self._stdin, to_write=True)
                if self._gone.is_set():
                    raise BrokenPipeError("it has ended") from None
            except OSError as error:
                raise BrokenPipeError(str(error)) from None

    async def send_keys(self, *names: str) -> None:
        """Press keys on its terminal: "enter", "ctrl-c", "up" … Raises UnknownKey for others; use `write` for text."""
        if not self._spawn.pty:
            raise NoTerminal
        await self.write(encode_keys(*names))

    def resize(self, rows: int, columns: int) -> None:
        if not self._spawn.pty:
            raise NoTerminal
        if self._stdin is not None:
            terminal.resize(self._stdin, rows, columns)

    def close_stdin(self) -> None:
        """Close its stdin. On a terminal, send ctrl-d instead."""
        if self._stdin is not None and not self._spawn.pty:
            os.close(self._stdin)
            self._stdin = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Kill the command when leaving the context."""
        self.kill()
        await self.wait()
        self._all_read.cancel()

    async def _read(self, stream: OutputStream, descriptor: int) -> None:
        try:
            while True:
                try:
                    data = os.read(descriptor, CHUNK_BYTES)
                except BlockingIOError:
                    if self._gone.is_set():
                        return
                    await self._until_ready(descriptor)
                    continue
                except OSError:  # EIO: the last program on the terminal has ended
                    return
                if not data:
                    return
                await self._queue.put(OutputChunk(stream, data))
        finally:
            if descriptor == self._stdin:
                self._stdin = None
            os.close(descriptor)

    async def _until_ready(self, descriptor: int, *, to_write: bool = False) -> None:
        """Wait until there is something to read or room to write, or the process is gone."""
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        self._waiting.add(ready)
        add, remove = (loop.add_writer, loop.remove_writer) if to_write else (loop.add_reader, loop.remove_reader)
        add(descriptor, _resolve, ready)
        try:
            await ready
        finally:
            remove(descriptor)
            self._waiting.discard(ready)

    async def _watch(self) -> ProcessResult:
        """Enforce the timeout and the disk reserve until the process is gone; then return the result."""
        ending = asyncio.create_task(self._until_gone())
        deadline = self._began + self._spawn.timeout_s
        had_space = self._disk_left() > self._spawn.limits.disk_reserve_bytes  # if already full, not this command's fault
        while not ending.done():
            await asyncio.wait((ending,), timeout=max(0.0, min(CHECK_SECONDS, deadline - time.monotonic())))
            if time.monotonic() >= deadline and not ending.done():
                self._end("timeout")
                break
            if had_space and self._disk_left() < self._spawn.limits.disk_reserve_bytes:
                self._end("disk")
        await ending
        took = int((time.monotonic() - self._began) * 1000)
        self._gone.set()
        for each in self._waiting:
            _resolve(each)
        if self._stdin is not None and not self._spawn.pty:
            self.close_stdin()
        self._opened.close()
        return _build_result(self._process.returncode, self._ended_by, took)

    def _disk_left(self) -> int:
        try:
            return shutil.disk_usage(self._spawn.sandbox.workspace).free
        except OSError:
            return sys.maxsize

    def _end(self, by: EndedBy) -> None:
        if self._process.returncode is not None or self._ended_by != "itself":
            return
        self._ended_by = by
        if self._spawn.sandbox.level == SandboxLevel.BWRAP:
            self._process.kill()  # the first process in the sandbox dies with it, and all others with that one
            return
        self._process.terminate()  # the guard knows the whole tree
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)
        asyncio.get_running_loop().call_later(GUARD_TIMEOUT_SECONDS, self._kill_guard)

    def _kill_guard(self) -> None:
        if self._process.returncode is None:
            self._process.kill()

    async def _until_gone(self) -> None:
        if sys.platform != "linux":
            await asyncio.to_thread(self._process.wait)
            return
        # When bubblewrap is killed, the first process of its namespace and all others die shortly after.
        await asyncio.gather(*(_wait_until_ended(descriptor) for descriptor in _open_process_tree(self.pid)))
        self._process.wait()


def _open_process_tree(pid: int) -> list[int]:
    """Open pidfds of a process and its direct children."""
    pidfds = [os.pidfd_open(pid)]
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(ProcessLookupError):
                pidfds.append(os.pidfd_open(int(child)))
    return pidfds


async def _wait_until_ended(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    loop.add_reader(descriptor, _resolve, ended)
    try:
        await ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _build_result(code: int, by: EndedBy, duration_ms: int) -> ProcessResult:
    if by != "itself":
        return ProcessResult(None, "SIGKILL", by, duration_ms)
    number = -code if code < 0 else code - 128
    with suppress(ValueError):
        return ProcessResult(None if code < 0 else code, signal.Signals(number).name, by, duration_ms)
    return ProcessResult(code, None, by, duration_ms)
