"""`claw serve`: run everything on one host. Locks the state directory, opens the port, runs `prepare`, supervises web and worker.

If the database and static files are current, web and worker start first, and `prepare` follows when web is ready.

Doesn't load Django: this process idles for months next to the other two. `claw prepare` does everything that needs models.
"""

import argparse
import contextlib
import errno
import fcntl
import json
import logging
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from clawsite.cli import address, errors
from clawsite.cli.command import CommandFailed, read_settings
from clawsite.cli.serving import banner, readiness
from clawsite.cli.serving.supervisor import Child, Supervisor
from clawsite.infra.observability import logs
from clawsite.infra.process import child

log = logging.getLogger(__name__)

HELP = "Run everything on this host: web, worker and database (start here)"
EXAMPLES = """examples:
  claw serve                                            http://127.0.0.1:8765, state in .clawsite/
  CLAWSITE_PORT=9000 CLAWSITE_HOME=~/claw claw serve    another port and state directory
  CLAWSITE_MODEL=openai/gpt-5 OPENAI_API_KEY=… claw serve

Ctrl-C or SIGTERM drains: runs in progress are handed over and continue at the next start. A second one kills immediately.
All settings: docs/deployment.md
"""

# With a current database, `prepare` starts when web is ready, because both would compete for the CPU. After this time it starts
# anyway: it may find out why web does not.
PREPARE_AFTER_SECONDS = 5.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="worker processes (default 1, enough for 64 concurrent runs)"
    )


def run(options: argparse.Namespace) -> int:
    if options.workers < 1:
        raise CommandFailed("--workers must be at least 1.", code=2)
    settings = read_settings()
    logs.configure("serve", secrets=[settings.SECRET_KEY, settings.GATEWAY_TOKEN], directory=settings.LOG_DIRECTORY)
    with (
        lock_state_directory(settings.HOME / "serve.lock"),
        open_listener(settings.HOST, settings.PORT) as listener,
        address.publish_address(settings.HOME, listener),
    ):
        return Service(settings, listener, options.workers).run()


@contextlib.contextmanager
def lock_state_directory(path: Path) -> Any:
    """Keep two servers from using one state directory. The kernel releases the lock when the process ends, even if it is killed."""
    with open(path, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise CommandFailed(
                f"already running on {path.parent} as process {owner}. "
                f"Stop it (kill {owner}), or set CLAWSITE_HOME to another directory."
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def open_listener(host: str, port: int) -> socket.socket:
    """Open the socket that the web process inherits. It stays open here, so that new connections wait while web restarts."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    give_up = time.monotonic() + 2  # after kill -9 of a supervisor, its web process may need a moment to release the port
    while True:
        try:
            return socket.create_server((host, port), family=family, backlog=2048)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < give_up:
                time.sleep(0.05)
                continue
            if error.errno == errno.EADDRINUSE:
                raise CommandFailed(errors.port_in_use_message(host, port)) from error
            raise CommandFailed(
                f"cannot listen on {host}:{port}: {error.strerror}. Check CLAWSITE_HOST and CLAWSITE_PORT."
            ) from error


class Service:
    """The processes of `serve`: starts `prepare`, web and workers in the right order."""

    def __init__(self, settings: ModuleType, listener: socket.socket, workers: int) -> None:
        self.settings = settings
        self.listener = listener
        self.workers = workers
        # Only `prepare` gets the administrator's password, not the processes that run agents.
        self.env = {name: value for name, value in os.environ.items() if name != "CLAWSITE_ADMIN_PASSWORD"}
        self.env["CLAWSITE_GATEWAY_TOKEN"] = settings.GATEWAY_TOKEN
        # glibc gives each thread its own heap, but Python's threads rarely allocate at the same time: one heap saves memory.
        self.env.setdefault("MALLOC_ARENA_MAX", "1")
        # The children drain for DRAIN_SECONDS themselves; the margin lets them clean up afterwards.
        self.supervisor = Supervisor(self.env, settings.DRAIN_SECONDS + 2, on_stop=self._close)
        self.preparing: subprocess.Popen[bytes] | None = None
        self.first_steps: dict[str, Any] | None = None
        self.banner_printed = False
        self.web: Child | None = None
        self.web_ready = False

    def run(self) -> int:
        settings = self.settings
        if readiness.schema_is_current(settings) and readiness.static_is_current(settings):
            self._start()
            self.supervisor.call_later(PREPARE_AFTER_SECONDS, self._prepare)
        else:
            self._prepare()
        return self.supervisor.run()

    def _close(self) -> None:
        """Stop accepting connections and end a running `prepare`."""
        self.listener.close()
        if self.preparing and self.preparing.poll() is None:
            self.preparing.terminate()

    def _start(self) -> None:
        ready_reader, ready_writer = os.pipe()
        listener = self.listener.fileno()
        argv = self._argv("web", "--fd", str(listener), "--ready-fd", str(ready_writer))
        self.web = web = self.supervisor.add("web", argv, [listener, ready_writer])
        self.supervisor.watch(ready_reader, lambda: self._on_web_ready(os.read(ready_reader, 64), web))
        for number in range(1, self.workers + 1):
            self.supervisor.add("worker" if number == 1 else f"worker-{number}", self._argv("worker"))

    def _argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "clawsite.cli.main", *arguments]

    def _on_web_ready(self, _data: bytes, web: Child) -> None:
        log.info("web is ready", extra={"ms": round((time.monotonic() - web.started_at) * 1000)})
        first = not self.web_ready
        self.web_ready = True
        if first:
            self._prepare()
            self._print_banner()

    def _prepare(self) -> None:
        """Start `claw prepare` once, and handle its lines of output in the supervisor's loop."""
        if self.preparing or self.supervisor.stopping:
            return
        env = {**os.environ, "CLAWSITE_GATEWAY_TOKEN": self.settings.GATEWAY_TOKEN}
        # Once web and worker have started, `prepare` only collects what the banner shows, and must not slow them down.
        priority = ["--gently"] if self.web else []
        preparing = self.preparing = child.spawn(self._argv("prepare", "--json", *priority), env=env, stdout=subprocess.PIPE)
        descriptor = preparing.stdout.fileno() if preparing.stdout else -1
        unread = bytearray()

        def on_output() -> None:
            chunk = os.read(descriptor, 65536)
            unread.extend(chunk)
            *lines, rest = bytes(unread).split(b"\n")
            unread[:] = rest
            for line in lines:
                self._on_line(line)
            if not chunk:
                self.supervisor.unwatch(descriptor)
                self._on_prepared(preparing.wait())

        self.supervisor.watch(descriptor, on_output)

    def _on_line(self, line: bytes) -> None:
        if not line.startswith(b"{"):  # a library's message, not one of our JSON lines
            print(line.decode(errors="replace"), flush=True)
            return
        message = json.loads(line)
        if "step" in message:
            print(message["step"], flush=True)
        else:
            self.first_steps = message["done"]

    def _on_prepared(self, code: int) -> None:
        if self.supervisor.stopping:
            return
        if self.first_steps is None:  # `prepare` failed and has printed the reason to stderr
            self.supervisor.stop(code or 1)
            return
        if self.web is None:
            self._start()
        self._print_banner()

    def _print_banner(self) -> None:
        if self.web_ready and self.first_steps is not None and not self.banner_printed:
            self.banner_printed = True
            print(banner.render_banner(self.settings, self.first_steps), flush=True)
