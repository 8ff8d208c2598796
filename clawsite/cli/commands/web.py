"""`claw web`: run one web process, which serves the ASGI application with uvicorn, or with daphne (the server of Channels)."""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from clawsite.cli import address, errors
from clawsite.cli.command import CommandFailed, read_settings
from clawsite.cli.serving.readiness import detect_restore, require_migrated
from clawsite.infra.observability import logs, tracing
from clawsite.infra.process import child
from clawsite.infra.process.garbage import collection_paused

if TYPE_CHECKING:
    import uvicorn

log = logging.getLogger(__name__)

HELP = "Run one web process: pages, WebSocket, health (any number on PostgreSQL + Redis)"
EXAMPLES = """examples:
  claw web --port 8001 & claw web --port 8002 &     two behind a load balancer
  claw web --server daphne                          Channels' server; slow clients cost memory, see `claw doctor`

SIGTERM drains: no new connections, open sockets are notified, and the process ends within CLAWSITE_DRAIN_SECONDS.
"""

MAX_FRAME_BYTES = 26_214_400 + 1024  # the protocol's limit; the margin lets the gateway itself report that a frame is too large

# A client that disappeared without closing the connection is detected by its missing pong within 40 s.
PING_SECONDS = PONG_SECONDS = 20.0
# If the kernel still holds unsent bytes for it, closing would wait 15 minutes or forever; this timeout ends the wait.
UNREAD_TIMEOUT_MS = 60_000

SHUTDOWN_SECONDS = 3.0  # part of the drain time, for notifying open sockets; requests in progress get the rest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="address to listen on (default CLAWSITE_HOST or 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default CLAWSITE_PORT or 8765)")
    parser.add_argument("--server", choices=["uvicorn", "daphne"], default="uvicorn", help="ASGI server (default uvicorn)")
    parser.add_argument("--fd", type=int, help="serve this inherited listening socket instead")
    parser.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    child.end_with_parent()
    settings = read_settings()
    logs.configure("web", secrets=[settings.SECRET_KEY, settings.GATEWAY_TOKEN], directory=settings.LOG_DIRECTORY)
    host, port = options.host or settings.HOST, options.port or settings.PORT
    listener = _open_listener(host, port, options.fd)
    with collection_paused():
        from django.utils.module_loading import import_string

        application = import_string(settings.ASGI_APPLICATION)  # by name, because the layers contract forbids importing it here
    require_migrated(settings)
    detect_restore(settings)
    supervised = options.ready_fd is not None  # `serve` has written the address file itself
    with (
        tracing.export_spans("web"),
        contextlib.nullcontext() if supervised else address.publish_address(settings.HOME, listener, give_way=True),
    ):
        if options.server == "daphne":
            listener.close()  # this socket only checked that the port is free; daphne opens its own
            _serve_daphne(application, host, port)
        else:
            _serve_uvicorn(application, listener, settings, options.ready_fd)
    return 0


def _open_listener(host: str, port: int, descriptor: int | None) -> socket.socket:
    if descriptor is not None:
        return socket.socket(fileno=descriptor)
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=2048)
    except OSError as error:
        raise CommandFailed(errors.port_in_use_message(host, port)) from error


def _serve_uvicorn(application: Any, listener: socket.socket, settings: ModuleType, ready_fd: int | None) -> None:
    import uvicorn

    from clawsite.cli.serving.frame_limit import HandshakeLimitProtocol

    _set_unread_timeout(listener)
    config = uvicorn.Config(
        application,
        loop="uvloop",
        ws=HandshakeLimitProtocol,
        ws_max_size=MAX_FRAME_BYTES,
        ws_ping_interval=PING_SECONDS,
        ws_ping_timeout=PONG_SECONDS,
        ws_per_message_deflate=False,  # frames are small and encoded once for all sockets, but would be compressed for each
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the application reads X-Forwarded-For itself, limited by CLAWSITE_TRUSTED_PROXIES
        timeout_graceful_shutdown=max(1, int(settings.DRAIN_SECONDS - SHUTDOWN_SECONDS)),
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises the signal again after draining
    _create_server(config, ready_fd).run(sockets=[listener])


def _set_unread_timeout(listener: socket.socket, milliseconds: int = UNREAD_TIMEOUT_MS) -> None:
    """Drop connections of this listener whose sent data stays unacknowledged for this long. Linux only."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)


def _create_server(config: "uvicorn.Config", ready_fd: int | None) -> "uvicorn.Server":
    import uvicorn

    class Server(uvicorn.Server):
        """Reports when it is ready, and shuts the application down while its sockets are still open."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            log.info("listening at %s", ", ".join("{}:{}".format(*listener.getsockname()) for listener in sockets or []))
            if ready_fd is not None:
                os.write(ready_fd, b"ready\n")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            for server in self.servers:
                server.close()
            # uvicorn would close the sockets before it shuts down the application, which could then no longer notify clients.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.lifespan.shutdown(), SHUTDOWN_SECONDS)
            await super().shutdown(sockets)

    return Server(config)


def _serve_daphne(application: Any, host: str, port: int) -> None:
    log.warning("daphne buffers without limit for a client that does not read: slow-consumer limits do not hold")
    endpoint = f"tcp{6 if ':' in host else ''}:{port}:interface={host.replace(':', chr(92) + ':')}"
    import_module("daphne.server").Server(application, endpoints=[endpoint], server_name="").run()
