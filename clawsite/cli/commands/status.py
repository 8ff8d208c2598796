"""`claw status`: show the state of the running gateway, read through its WebSocket."""

import argparse
import json
from typing import Any

from clawsite.cli import endpoint
from clawsite.cli.command import CommandFailed
from clawsite.client import Client, ConnectionLost

HELP = "Show the state of the running gateway"
EXAMPLES = """examples:
  claw status
  claw status --json
  claw status --url wss://claw.example.com/ws      with an access token in CLAWSITE_GATEWAY_TOKEN

Exit code: 0 healthy, 1 the gateway responds but is unhealthy or has no worker, 3 it does not respond.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the gateway's response")
    endpoint.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    return endpoint.run_with_gateway(_show_status(options))


async def _show_status(options: argparse.Namespace) -> int:
    async with Client(endpoint.resolve_endpoint(options)) as client:
        try:
            status = await client.request("status")
            status["health"] = await client.request("health", {"probe": True})
        except (ConnectionLost, TimeoutError) as error:
            raise CommandFailed(f"the gateway stopped responding: {error or 'timeout'}", endpoint.EXIT_UNREACHABLE) from error
    if options.json:
        print(json.dumps(status, indent=2, ensure_ascii=False))
    else:
        print("\n".join(describe(status, client.endpoint.url)))
    return 0 if status["health"]["ok"] and status["health"]["workers"] else 1


def describe(status: dict[str, Any], url: str) -> list[str]:
    health = status["health"]
    lines = [f"Clawsite {status['version']} at {url}, up {format_duration(status['uptimeMs'] / 1000)}"]
    if not health["ok"]:
        return [*lines, f"  unhealthy  {health['error']}"]
    runs, waits = health["runs"], _describe_waits(health["waitingFor"])
    workers = health["workers"] or "none: messages stay queued until one is started (`claw worker`)"
    return [
        *lines,
        f"  workers    {workers}",
        *(f"  frozen     {_describe_freeze(stop)}" for stop in health["stopped"]),
        f"  runs       {runs['running']} running, {runs['accepted']} queued, {runs['waiting']} waiting{waits}",
        *(
            f"  lane       {_describe_lane(lane)}"
            for lane in health["lanes"]
            if lane["running"] or lane["queued"] or lane["parked"]
        ),
        f"  sessions   {health['sessions']['count']}, {status['sessions']['count']} of them yours",
        f"  agents     {', '.join(agent['agentId'] for agent in health['agents'])}",
        f"  model      {status['sessions']['defaults']['model']}",
    ]


def _describe_waits(counts: dict[str, int]) -> str:
    return f" ({', '.join(f'{kind}: {count}' for kind, count in counts.items())})" if counts else ""


def format_duration(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _describe_freeze(stop: dict[str, Any]) -> str:
    what = "everything" if stop["scope"] == "all" else f"{stop['scope']} {stop['subject']}"
    return f"{what}, by {stop['by']}: {stop['reason']} (resume with `claw panic --resume`)"


def _describe_lane(lane: dict[str, Any]) -> str:
    late = f", the oldest for {format_duration(lane['oldestWaitMs'] / 1000)} (late)" if lane["late"] else ""
    return f"{lane['lane']}: {lane['running']} of {lane['max']} running, {lane['queued']} queued{late}, {lane['parked']} waiting"
