"""`claw logs`: what happened in a session, event by event, and what happens next."""

import argparse
import json
import math
import sys
from datetime import datetime

from clawsite.cli import endpoint
from clawsite.cli.printing import event_line
from clawsite.client import BEGINNING, Client

HELP = "Show the events of a session, and follow them live"
EXAMPLES = """examples:
  claw logs                                      everything of the main session that is kept
  claw logs --session agent:main:main --follow   and then whatever happens, until Ctrl-C
  claw logs --after 120 --json                   only events after cursor 120, as JSON lines

A restart of the gateway does not interrupt --follow: it dials again and goes on after the last event it has shown.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", metavar="KEY", default="agent:main:main", help="session to read (default agent:main:main)")
    parser.add_argument("--follow", action="store_true", help="go on with what happens next")
    parser.add_argument("--after", type=int, metavar="CURSOR", help="leave out events up to this cursor")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    endpoint.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    return endpoint.talk(_show(options))


async def _show(options: argparse.Namespace) -> int:
    def lost(reason: str) -> None:
        print(f"claw: connection lost ({reason}); dialling again", file=sys.stderr)

    place = BEGINNING if options.after is None else options.after
    async with Client(endpoint.endpoint(options), patience=math.inf, on_lost=lost) as client:
        async for event in client.follow(options.session, place, live=options.follow):
            if options.json:
                print(json.dumps(vars(event), ensure_ascii=False), flush=True)
            else:
                moment = datetime.fromtimestamp(event.ts / 1000).isoformat(sep=" ", timespec="milliseconds")
                print(event_line(event, moment), flush=True)
    return 0
