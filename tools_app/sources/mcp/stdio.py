"""Run an MCP server as a program: one JSON message per line on stdin and stdout; stderr goes to our log.

Unlike the SDK's transport, this one limits the length of a line, invalid lines, and what is logged; and it starts the program
under a guard, so that its whole process tree ends when the worker dies for any reason.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import anyio
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from clawsite.infra.process import guard

log = logging.getLogger(__name__)

MAX_LINE_BYTES = 16 * 1024 * 1024  # bytes: a screenshot or two
MAX_INVALID_LINES = 200  # stdout lines that are not messages
MAX_LOGGED_LINES, MAX_LOGGED_LINE_LENGTH = 100, 500  # stderr: lines per minute, characters per line
END_TIMEOUT_SECONDS = 2.0  # for the program to end after its stdin was closed
KILL_TIMEOUT_SECONDS = guard.GRACE_SECONDS + 2.0  # for the guard to kill it


@dataclass(frozen=True, slots=True)
class ServerLaunch:
    """The command to run, its full environment, and the function that redacts its output for the log."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    redacted: Callable[[str], str]


class ServerEnded(Exception):
    """The program ended or doesn't speak MCP. The message is for the operator."""


class ServerProcess:
    """A running server. `over` is set when no more output will come, and `why` gives the reason."""

    def __init__(self, launch: ServerLaunch, process: asyncio.subprocess.Process) -> None:
        self._launch, self._process = launch, process
        if not (process.stdin and process.stdout and process.stderr):
            raise TypeError("the program was started without pipes")
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self.over = asyncio.Event()
        self.why = ""
        self.last_stderr = ""  # last line on stderr, unredacted: usually says what is wrong

    def end(self, why: str) -> None:
        self.why = self.why or why
        self.over.set()

    async def listen(self, incoming: "anyio.abc.ObjectSendStream[SessionMessage | Exception]") -> None:
        invalid = 0
        try:
            async with incoming:
                while line := await self._stdout.readline():
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except (ValidationError, ValueError):
                        invalid += bool(line.strip())
                        if invalid > MAX_INVALID_LINES:
                            raise ServerEnded("it writes non-MCP output to stdout") from None
                        continue
                    await incoming.send(SessionMessage(message))
        except ServerEnded as ended:
            self.end(str(ended))
        except ValueError:  # from readline
            self.end(f"it sent a line of more than {MAX_LINE_BYTES // 1024 // 1024} MB")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            pass
        finally:
            self.end("it ended")

    async def write_messages(self, outgoing: "anyio.abc.ObjectReceiveStream[SessionMessage]") -> None:
        try:
            async with outgoing:
                async for each in outgoing:
                    self._stdin.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                    await self._stdin.drain()
        except (ConnectionError, RuntimeError, anyio.ClosedResourceError):
            self.end("it closed its stdin")

    async def log_stderr(self) -> None:
        """Log stderr, limited to a readable amount."""
        since, logged, left_out = time.monotonic(), 0, 0
        while piece := await self._stderr.read(64 * 1024):
            for line in piece.decode(errors="replace").splitlines():
                if not (text := line.strip()[: 4 * MAX_LOGGED_LINE_LENGTH]):
                    continue
                self.last_stderr = text
                if time.monotonic() - since > 60:
                    since, logged = time.monotonic(), 0
                logged += 1
                if logged <= MAX_LOGGED_LINES:
                    log.info("MCP server %s stderr: %s", self._launch.name, self._launch.redacted(text)[:MAX_LOGGED_LINE_LENGTH])
                else:
                    left_out += 1
        if left_out:
            log.info("MCP server %s: %d more stderr lines not logged", self._launch.name, left_out)

    async def stop(self) -> None:
        """Close its stdin, as the protocol requires; then terminate its whole process tree."""
        process = self._process
        try:
            self._stdin.close()
            if not await self._has_ended_within(END_TIMEOUT_SECONDS):
                process.terminate()
                if not await self._has_ended_within(KILL_TIMEOUT_SECONDS):
                    process.kill()
        except BaseException:  # canceled again: the guard does the rest
            with suppress(ProcessLookupError):
                process.terminate()
            raise
        finally:
            # There is no public way to close the pipes of a program whose output is no longer read.
            process._transport.close()  # type: ignore[attr-defined]  # the stubs hide it

    async def _has_ended_within(self, seconds: float) -> bool:
        """Poll, because `wait` also waits until all output has been read."""
        deadline = time.monotonic() + seconds
        while self._process.returncode is None and time.monotonic() < deadline:  # noqa: ASYNC110  # asyncio has no event for it
            await asyncio.sleep(0.01)
        return self._process.returncode is not None


async def start_server(launch: ServerLaunch) -> ServerProcess:
    """Start the server. Raise OSError if the guard can't start; a missing program ends immediately with a message on stderr."""
    process = await asyncio.create_subprocess_exec(
        *guard.guarded_command(*launch.argv),
        env=dict(launch.env),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=MAX_LINE_BYTES,
        start_new_session=True,
    )
    return ServerProcess(launch, process)


@asynccontextmanager
async def open_stdio_transport(program: ServerProcess) -> AsyncGenerator[TransportStreams, None]:
    """Expose the program as an SDK transport. Leaving the context stops the program, even if the caller is canceled."""
    incoming, to_read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(program.listen, incoming)
            tasks.start_soon(program.write_messages, outgoing)
            tasks.start_soon(program.log_stderr)
            try:
                yield to_read, to_write
            finally:
                with anyio.CancelScope(shield=True):
                    await program.stop()
                tasks.cancel_scope.cancel()
    finally:
        for stream in (incoming, to_read, to_write, outgoing):
            stream.close()
