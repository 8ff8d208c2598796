"""Where the running gateway is and what opens it, for the commands that talk to it. Reads the environment and one file."""

import argparse
import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from clawsite.cli.command import CommandFailed
from clawsite.client import Endpoint, EventsGone, GatewayError, Unreachable

NOT_REACHABLE = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--url", help="address of the gateway's socket (default ws://CLAWSITE_HOST:CLAWSITE_PORT/ws)")


def endpoint(options: argparse.Namespace) -> Endpoint:
    return Endpoint(url=options.url or default_url(), token=token())


def default_url() -> str:
    host = os.environ.get("CLAWSITE_HOST", "127.0.0.1")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  # nothing is bound; everywhere includes here
    return f"ws://{f'[{host}]' if ':' in host else host}:{os.environ.get('CLAWSITE_PORT', '8765')}/ws"


def home() -> Path:
    project = Path(__file__).resolve().parent.parent.parent
    return Path(os.environ.get("CLAWSITE_HOME") or project / ".clawsite").expanduser().absolute()


def token() -> str:
    """CLAWSITE_GATEWAY_TOKEN, which may also hold a personal token, or the one the gateway made for programs on this host."""
    if given := os.environ.get("CLAWSITE_GATEWAY_TOKEN"):
        return given
    file = home() / "gateway.token"
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        raise CommandFailed(
            f"there is no gateway token in {home()}. Start the gateway (`claw serve`), or set CLAWSITE_HOME to its state directory "
            "or CLAWSITE_GATEWAY_TOKEN to a token.",
            code=NOT_REACHABLE,
        ) from None
    except OSError as error:
        raise CommandFailed(
            f"cannot read {file}: {error.strerror}. Use the account that runs the gateway, or a personal token."
        ) from error


def talk(conversation: Coroutine[Any, Any, int]) -> int:
    """Run a conversation with the gateway; what ends it early becomes a sentence."""
    try:
        return asyncio.run(conversation)
    except EventsGone as error:
        raise CommandFailed(f"{error}. Ask again without a place to begin from.") from error
    except Unreachable as error:
        raise CommandFailed(
            f"{error}. Is it running? Start it with `claw serve`; `claw doctor` says more.", code=NOT_REACHABLE
        ) from error
    except GatewayError as error:
        if error.is_about_auth:
            raise CommandFailed(
                f"the gateway refused the token: {error}. Was it started with another CLAWSITE_HOME or CLAWSITE_GATEWAY_TOKEN?"
            ) from error
        raise CommandFailed(f"{error.code}: {error}") from error
