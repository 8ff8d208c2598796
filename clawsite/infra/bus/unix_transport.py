"""The bus between processes on one host: every process listens on its own socket and connects to all others.

A process sends to its incoming connections and receives from its outgoing ones, so there is exactly one connection per
direction. Every few seconds it scans for processes it is not connected to, so broken connections are restored.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

MAX_PATH_LENGTH = 100  # the path of a Unix socket is limited to 108 bytes on Linux, 104 on macOS
MAX_LINE_BYTES = 32 << 20
SCAN_SECONDS = 3.0  # until the next scan, processes rely on polling
MAX_UNSENT_BYTES = 8 << 20  # a process that doesn't read loses messages but no events: those are in the database


class UnixTransport:
    def __init__(self, directory: Path, *, receive: Callable[[bytes], None]) -> None:
        self._receive = receive
        if len(os.fsencode(directory)) + 20 > MAX_PATH_LENGTH:
            digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:16]
            directory = Path(tempfile.gettempdir()) / f"clawsite-{os.getuid()}-{digest}"
        self._directory = directory
        self._path = directory / f"{uuid.uuid4().hex[:12]}.sock"
        self._server: asyncio.Server | None = None
        self._listeners: set[asyncio.StreamWriter] = set()
        self._dialed: dict[str, asyncio.Task[None]] = {}
        self._scan_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._directory.stat().st_uid != os.getuid():
            raise PermissionError(f"{self._directory} belongs to another account")
        self._server = await asyncio.start_unix_server(self._accept, self._path, limit=MAX_LINE_BYTES)
        self._dial_all()
        self._scan_task = asyncio.create_task(self._scan_loop())

    async def stop(self) -> None:
        if self._server:
            self._server.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()  # before closing connections, because the others try to reconnect
        tasks = [*self._dialed.values(), *([self._scan_task] if self._scan_task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in list(self._listeners):
            writer.close()

    def send(self, line: bytes) -> None:
        for writer in self._listeners:
            if writer.transport.get_write_buffer_size() < MAX_UNSENT_BYTES:
                writer.write(line + b"\n")

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle a new peer. Its first line is the name of its own socket."""
        try:
            name = (await reader.readline()).decode().strip()
            if not name:
                return
            self._listeners.add(writer)
            self._dial(name)
            await reader.read()  # peers send nothing else: this returns when they disconnect
        except (OSError, ValueError):
            log.debug("a process left the bus")
        finally:
            self._listeners.discard(writer)
            writer.close()

    async def _scan_loop(self) -> None:
        while True:
            await asyncio.sleep(SCAN_SECONDS)
            try:
                self._dial_all()
            except OSError as error:
                log.warning("bus could not scan for other processes: %s", error)

    def _dial_all(self) -> None:
        for other in sorted(self._directory.glob("*.sock")):
            self._dial(other.name)

    def _dial(self, name: str) -> None:
        path = self._directory / Path(name).name
        if path != self._path and path.name not in self._dialed:
            task = asyncio.create_task(self._listen(path))
            self._dialed[path.name] = task
            task.add_done_callback(lambda _: self._dialed.pop(path.name, None))

    def _remove_stale(self, path: Path) -> None:
        """Remove the socket of a killed process, but not a new one that may not be listening yet."""
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > SCAN_SECONDS:
                path.unlink()

    async def _listen(self, path: Path) -> None:
        try:
            reader, writer = await asyncio.open_unix_connection(path, limit=MAX_LINE_BYTES)
        except ConnectionRefusedError:
            self._remove_stale(path)
            return
        except OSError as error:  # gone or too busy: the next scan retries
            log.debug("bus could not reach %s: %s", path.name, error)
            return
        try:
            writer.write(self._path.name.encode() + b"\n")
            while line := await reader.readline():
                self._receive(line)
        except (OSError, ValueError) as error:
            log.warning("bus lost a connection: %s", error)
        finally:
            writer.close()
