"""`claw logs`: what happened in a session, event by event, and what happens next."""

import argparse
import contextlib
import json
import math
import sys

from clawsite.cli import endpoint
from clawsite.cli.command import CommandFailed
from clawsite.cli.output import EventPrinter
from clawsite.client.client import BEGINNING, Client, ConnectionLost, Event, EventsGone

HELP = "Show the events of a session, and follow them live"
EXAMPLES = """examples:
  claw logs                                      everything of the main session that is kept
  claw logs --session agent:main:main --follow   and then whatever happens, until Ctrl-C
  claw logs --after 120 --json                   only events after cursor 120, as JSON lines

The pieces of a streamed text are one line, printed at its end; --json has every event as it is. A restart of the gateway
does not interrupt --follow: it dials again and goes on after the last event it has shown. After a restore of the database it
says so and shows the log that is there now.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", metavar="KEY", default="agent:main:main", help="session to read (default agent:main:main)")
    parser.add_argument("--follow", action="store_true", help="go on with what happens next")
    parser.add_argument("--after", type=int, metavar="CURSOR", help="leave out events up to this cursor")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    endpoint.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    return endpoint.run_with_gateway(_show_events(options))


async def _show_events(options: argparse.Namespace) -> int:
    def lost(reason: str) -> None:
        print(f"claw: connection lost ({reason}); dialling again", file=sys.stderr)

    place = BEGINNING if options.after is None else options.after
    async with Client(endpoint.resolve_endpoint(options), patience=math.inf, on_lost=lost) as client:
        key, exists = await _find_session(client, options.session)
        if not exists:
            missing = f"there is no session {key} yet. `claw call sessions.list` shows those of this account."
            if not options.follow:
                raise CommandFailed(missing)
            print(f"claw: {missing}", file=sys.stderr)
        lines = EventPrinter(sys.stdout)
        show = _print_json if options.json else lines.show
        begun = False
        while True:
            try:
                async for event in client.follow(key, place, live=options.follow):
                    begun = True
                    show(event)
                return 0
            except EventsGone as gone:
                if not begun:  # the place was the caller's
                    raise
                print(f"claw: {gone}; from its beginning:", file=sys.stderr)
                place, begun = BEGINNING, False
            finally:
                lines.end()


async def _find_session(client: Client, name: str) -> tuple[str, bool]:
    """The whole key of a session, as its events carry it, and whether it is there."""
    while True:
        with contextlib.suppress(ConnectionLost):
            head = await client.request("chat.history", {"sessionKey": name, "limit": 1})
            return head["sessionKey"], head["sessionId"] is not None


def _print_json(event: Event) -> None:
    print(json.dumps(vars(event), ensure_ascii=False), flush=True)
