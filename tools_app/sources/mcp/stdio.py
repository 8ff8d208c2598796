"""A server as a program: one JSON message a line on its stdin and stdout, whatever it says on stderr into our log.

The SDK has such a transport too. This one adds bounds: on the length of a line, on what is not MCP, on what is logged; and it
starts the program under a guard, so that its whole tree ends with the worker, by whatever the worker dies.
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
MAX_INVALID_LINES = 200  # lines on stdout that are no messages
MAX_LOGGED_LINES, MAX_LOGGED_LINE_LENGTH = 100, 500  # of stderr: lines in a minute, characters of each
END_TIMEOUT_SECONDS = 2.0  # for the program to end after its stdin was closed
KILL_TIMEOUT_SECONDS = guard.GRACE_SECONDS + 2.0  # for the guard to end it


@dataclass(frozen=True, slots=True)
class ServerLaunch:
    """What is run, and how its words are made safe to log. `env` is all it gets."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    redacted: Callable[[str], str]


class ServerEnded(Exception):
    """The program has ended, or said what nobody can understand. The message is for the operator."""


class ServerProcess:
    """A running server. `over` is set as soon as nothing more will come from it, and `why` says so in words."""

    def __init__(self, launch: ServerLaunch, process: asyncio.subprocess.Process) -> None:
        self._launch, self._process = launch, process
        if not (process.stdin and process.stdout and process.stderr):
            raise TypeError("the program was started without pipes")
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self.over = asyncio.Event()
        self.why = ""
        self.last_stderr = ""  # on stderr, as they came: mostly what is wrong

    def end(self, why: str) -> None:
        self.why = self.why or why
        self.over.set()

    async def listen(self, heard: "anyio.abc.ObjectSendStream[SessionMessage | Exception]") -> None:
        rubbish = 0
        try:
            async with heard:
                while line := await self._stdout.readline():
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except (ValidationError, ValueError):
                        rubbish += bool(line.strip())
                        if rubbish > MAX_INVALID_LINES:
                            raise ServerEnded("it writes to stdout what is not MCP") from None
                        continue
                    await heard.send(SessionMessage(message))
        except ServerEnded as ended:
            self.end(str(ended))
        except ValueError:  # from readline
            self.end(f"it sent a line of more than {MAX_LINE_BYTES // 1024 // 1024} MB")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
            pass
        finally:
            self.end("it ended")

    async def write_messages(self, said: "anyio.abc.ObjectReceiveStream[SessionMessage]") -> None:
        try:
            async with said:
                async for each in said:
                    self._stdin.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                    await self._stdin.drain()
        except (ConnectionError, RuntimeError, anyio.ClosedResourceError):
            self.end("it closed its stdin")

    async def log_stderr(self) -> None:
        """Put stderr into the log, as much of it as a person would read."""
        since, told, left_out = time.monotonic(), 0, 0
        while piece := await self._stderr.read(64 * 1024):
            for line in piece.decode(errors="replace").splitlines():
                if not (words := line.strip()[: 4 * MAX_LOGGED_LINE_LENGTH]):
                    continue
                self.last_stderr = words
                if time.monotonic() - since > 60:
                    since, told = time.monotonic(), 0
                told += 1
                if told <= MAX_LOGGED_LINES:
                    log.info("MCP server %s says: %s", self._launch.name, self._launch.redacted(words)[:MAX_LOGGED_LINE_LENGTH])
                else:
                    left_out += 1
        if left_out:
            log.info("MCP server %s said %d more lines", self._launch.name, left_out)

    async def stop(self) -> None:
        """Close its stdin, as the protocol wants; then have it ended with its whole tree."""
        process = self._process
        try:
            self._stdin.close()
            if not await self._has_ended_within(END_TIMEOUT_SECONDS):
                process.terminate()
                if not await self._has_ended_within(KILL_TIMEOUT_SECONDS):
                    process.kill()
        except BaseException:  # cancelled once too often: the guard does the rest
            with suppress(ProcessLookupError):
                process.terminate()
            raise
        finally:
            # Nothing public closes the pipes of a program whose output nobody reads any more.
            process._transport.close()  # type: ignore[attr-defined]  # the stubs hide it

    async def _has_ended_within(self, seconds: float) -> bool:
        """By looking: `wait` also waits until all its output was read."""
        deadline = time.monotonic() + seconds
        while self._process.returncode is None and time.monotonic() < deadline:  # noqa: ASYNC110  # asyncio has no event for it
            await asyncio.sleep(0.01)
        return self._process.returncode is not None


async def start_server(launch: ServerLaunch) -> ServerProcess:
    """OSError where not even the guard can be started; a program that does not exist ends at once, with words on stderr."""
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
    """The program as a transport of the SDK. Leaving ends the program, also when the caller is cancelled."""
    heard, to_read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_write, said = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(program.listen, heard)
            tasks.start_soon(program.write_messages, said)
            tasks.start_soon(program.log_stderr)
            try:
                yield to_read, to_write
            finally:
                with anyio.CancelScope(shield=True):
                    await program.stop()
                tasks.cancel_scope.cancel()
    finally:
        for stream in (heard, to_read, to_write, said):
            stream.close()
