"""Find the running gateway's address and token for client commands, from the environment and two files."""

import argparse
import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from websockets.exceptions import InvalidURI
from websockets.uri import parse_uri

from clawsite.cli import address
from clawsite.cli.command import CommandFailed
from clawsite.client import Endpoint, EventsGone, GatewayError, Unreachable

EXIT_UNREACHABLE = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--url",
        help="address of the gateway: ws://, wss://, http:// or https:// "
        "(default: CLAWSITE_HOST and CLAWSITE_PORT, or else where the gateway of this state directory listens)",
    )


def resolve_endpoint(options: argparse.Namespace) -> Endpoint:
    url = options.url if options.url is not None else find_default_url()
    return Endpoint(url=to_socket_url(url), token=read_token())


def find_default_url() -> str:
    """Return the address from the environment, or else from the state directory's address file."""
    host, port = os.environ.get("CLAWSITE_HOST"), os.environ.get("CLAWSITE_PORT")
    if host is None and port is None and (published := address.read_address(state_directory())):
        return published
    return address.socket_url(host or "127.0.0.1", port or "8765")


def to_socket_url(given: str) -> str:
    """Turn an address that was typed or copied from a browser into a WebSocket URL."""
    try:
        parts = urlsplit(given)
        if scheme := {"http": "ws", "https": "wss"}.get(parts.scheme):
            parts = parts._replace(scheme=scheme, path="/ws" if parts.path in ("", "/") else parts.path)
        parse_uri(parts.geturl())
    except (InvalidURI, ValueError) as error:
        raise CommandFailed(
            f"{given!r} is not the address of a gateway. Write it like ws://127.0.0.1:8765/ws or https://claw.example.com.", code=2
        ) from error
    return parts.geturl()


def state_directory() -> Path:
    project = Path(__file__).resolve().parent.parent.parent
    return Path(os.environ.get("CLAWSITE_HOME") or project / ".clawsite").expanduser().absolute()


def read_token() -> str:
    """Return CLAWSITE_GATEWAY_TOKEN (gateway or access token), or the gateway token created for programs on this host."""
    if given := os.environ.get("CLAWSITE_GATEWAY_TOKEN"):
        return given
    file = state_directory() / "gateway.token"
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        raise CommandFailed(
            f"there is no gateway token in {state_directory()}. Start the gateway (`claw serve`), or set CLAWSITE_HOME to its "
            "state directory or CLAWSITE_GATEWAY_TOKEN to a token.",
            code=EXIT_UNREACHABLE,
        ) from None
    except OSError as error:
        raise CommandFailed(
            f"cannot read {file}: {error.strerror}. Use the account that runs the gateway, or an access token."
        ) from error


def run_with_gateway(coroutine: Coroutine[Any, Any, int]) -> int:
    """Run a coroutine that talks to the gateway and turn connection errors into readable messages."""
    try:
        return asyncio.run(coroutine)
    except EventsGone as error:
        raise CommandFailed(f"{error}. To see what is stored now, run `claw logs --session KEY`.") from error
    except Unreachable as error:
        raise CommandFailed(
            f"{error}. Is it running? Start it with `claw serve`; `claw doctor` shows more.", code=EXIT_UNREACHABLE
        ) from error
    except GatewayError as error:
        if error.is_about_auth:
            raise CommandFailed(
                f"the gateway rejected the token: {error}. Was it started with another CLAWSITE_HOME or CLAWSITE_GATEWAY_TOKEN?"
            ) from error
        raise CommandFailed(f"{error.code}: {error}") from error
