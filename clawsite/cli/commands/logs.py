"""`claw logs`: show the events of a session and follow new ones."""

import argparse
import contextlib
import json
import math
import sys

from clawsite.cli import endpoint
from clawsite.cli.command import CommandFailed
from clawsite.cli.output import EventPrinter
from clawsite.client import BEGINNING, Client, ConnectionLost, Event, EventsGone

HELP = "Show the events of a session, and follow them live"
EXAMPLES = """examples:
  claw logs                                      all stored events of the main session
  claw logs --session agent:main:main --follow   and new ones until Ctrl-C
  claw logs --after 120 --json                   only events after cursor 120, as JSON lines

Deltas of a streamed text are shown as one line when it is complete; --json prints every event as it is. A gateway restart
doesn't interrupt --follow: it reconnects and continues after the last event shown. After a database restore, it says so and
shows the current log from the beginning.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", metavar="KEY", default="agent:main:main", help="session to read (default agent:main:main)")
    parser.add_argument("--follow", action="store_true", help="keep printing new events")
    parser.add_argument("--after", type=int, metavar="CURSOR", help="only events after this cursor")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    endpoint.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    return endpoint.run_with_gateway(_show_events(options))


async def _show_events(options: argparse.Namespace) -> int:
    def lost(reason: str) -> None:
        print(f"claw: connection lost ({reason}); reconnecting", file=sys.stderr)

    position = BEGINNING if options.after is None else options.after
    async with Client(endpoint.resolve_endpoint(options), patience=math.inf, on_lost=lost) as client:
        key, exists = await _find_session(client, options.session)
        if not exists:
            missing = f"there is no session {key} yet. `claw call sessions.list` shows those of this account."
            if not options.follow:
                raise CommandFailed(missing)
            print(f"claw: {missing}", file=sys.stderr)
        lines = EventPrinter(sys.stdout)
        show = _print_json if options.json else lines.show
        started = False
        while True:
            try:
                async for event in client.follow(key, position, live=options.follow):
                    started = True
                    show(event)
                return 0
            except EventsGone as gone:
                if not started:  # the position was given by the user
                    raise
                print(f"claw: {gone}; showing it from the beginning:", file=sys.stderr)
                position, started = BEGINNING, False
            finally:
                lines.end()


async def _find_session(client: Client, name: str) -> tuple[str, bool]:
    """Return the full key of a session and whether it exists."""
    while True:
        with contextlib.suppress(ConnectionLost):
            head = await client.request("chat.history", {"sessionKey": name, "limit": 1})
            return head["sessionKey"], head["sessionId"] is not None


def _print_json(event: Event) -> None:
    print(json.dumps(vars(event), ensure_ascii=False), flush=True)
