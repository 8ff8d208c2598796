"""`claw approvals`: the open questions about commands, and answers to them, through the running gateway.

An answer needs the personal token of somebody who may approve: what runs on this host, an agent's command among it, could read
the gateway's own token.
"""

import argparse
import json
import time
from typing import Any

from clawsite.cli import endpoint
from clawsite.cli.command import CommandFailed
from clawsite.cli.printing import visible
from clawsite.client import Client, ConnectionLost, GatewayError

HELP = "Look at the questions about commands and answer them"
EXAMPLES = """examples:
  claw approvals list
  claw approvals show 3f2a
  claw approvals approve 3f2a
  claw approvals approve 3f2a --for 1h --scope session
  claw approvals approve 3f2a --uses 5
  claw approvals approve 3f2a --always
  claw approvals deny 3f2a --reason "use the staging database"

An id may be shortened as long as it is clear which one is meant. To answer, put a personal token with the scope
operator.approvals into CLAWSITE_GATEWAY_TOKEN (`claw token create --help`, or /account/ in the browser).
"""
UNITS = {"s": 1, "m": 60, "h": 3600}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    endpoint.add_arguments(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|approve|deny")
    listing = actions.add_parser("list", help="what waits, oldest first")
    listing.add_argument("--json", action="store_true", help="print the gateway's own answer")
    show = actions.add_parser("show", help="one question in full")
    show.add_argument("--json", action="store_true", help="print the gateway's own answer")
    approve = actions.add_parser("approve", help="let the command run")
    approve.add_argument("--for", dest="seconds", type=_seconds, metavar="TIME", help="and the same again for 15m, 1h, 8h …")
    approve.add_argument("--uses", type=int, metavar="N", help="and the same again N times")
    approve.add_argument("--scope", choices=["session", "agent", "directory"], default="session", help="where (default session)")
    approve.add_argument("--always", action="store_true", help="and the same program with arguments of this shape from now on")
    deny = actions.add_parser("deny", help="refuse the command")
    deny.add_argument("--reason", default="", help="told to the agent")
    for each in (show, approve, deny):
        each.add_argument("id", help="id of the question, or its beginning")


def _seconds(text: str) -> int:
    try:
        return int(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 15m, 1h or 90s") from None


def run(options: argparse.Namespace) -> int:
    return endpoint.talk(_talk(options))


async def _talk(options: argparse.Namespace) -> int:
    async with Client(endpoint.endpoint(options)) as client:
        try:
            return await _act(client, options)
        except ConnectionLost as error:
            raise CommandFailed(f"the connection was lost: {error}. Look at `claw approvals list` before you try again.") from error
        except GatewayError as error:
            if error.code == "FORBIDDEN" and "scope" in str(error):
                raise CommandFailed(
                    "this token may not answer questions. Put a personal token with the scope operator.approvals into "
                    "CLAWSITE_GATEWAY_TOKEN, of somebody in the group Approver."
                ) from error
            raise


async def _act(client: Client, options: argparse.Namespace) -> int:
    if options.action == "list":
        found = await client.request("exec.approval.list", {"limit": 200})
        print(json.dumps(found, indent=2, ensure_ascii=False) if options.json else "\n".join(_table(found["approvals"])))
        return 0
    record = await _find(client, options.id)
    if options.action == "show":
        print(json.dumps(record, indent=2, ensure_ascii=False) if options.json else "\n".join(describe(record)))
        return 0
    # The hash of what was read a moment ago: the answer is to exactly that.
    answer: dict[str, Any] = {"id": record["id"], "planHash": record["planHash"], "decision": "deny"}
    if options.action == "deny":
        answer["reason"] = options.reason
    elif options.always:
        answer["decision"] = "allow-always"
    elif options.seconds or options.uses:
        answer |= {"decision": "allow-for", "for": {"seconds": options.seconds, "uses": options.uses, "scope": options.scope}}
    else:
        answer["decision"] = "allow-once"
    told = (await client.request("exec.approval.resolve", answer))["approval"]
    if told["status"] == "pending":
        print(f"{told['id'][:8]} agreed; somebody else must agree too")
    else:
        print(f"{told['id'][:8]} {told['status']}: {visible(told['request']['command'])}")
    return 0


async def _find(client: Client, beginning: str) -> dict[str, Any]:
    if len(beginning) < 32:
        waiting = (await client.request("exec.approval.list", {"limit": 200}))["approvals"]
        fitting = [record for record in waiting if record["id"].startswith(beginning)]
        if len(fitting) != 1:
            what = "no open question begins" if not fitting else f"{len(fitting)} open questions begin"
            raise CommandFailed(f"{what} with {beginning!r}; `claw approvals list` shows them")
        return dict(fitting[0])
    return dict(await client.request("exec.approval.get", {"id": beginning}))


def _table(records: list[dict[str, Any]]) -> list[str]:
    if not records:
        return ["Nothing waits for an approval."]
    return [
        f"{each['id'][:8]}  {_left(each):>9}  {each['request']['agentId']:<10}  {visible(each['request']['command'])}"
        for each in records
    ]


def describe(record: dict[str, Any]) -> list[str]:
    """Everything a person needs to decide; the command comes last, whole, on lines of its own."""
    request = record["request"]
    chat = request["sessionKey"] or "no session"
    network = "with network" if record["network"] else "without network"
    programs = [f"{each['name']} = {each['realpath']}" for each in record["executables"]]
    return [
        f"question     {record['id']} ({record['status']}, {_left(record)})",
        f"asked by     {visible(record['requester'])}, agent {visible(request['agentId'])}, in {visible(chat)}",
        f"directory    {visible(request['cwd'] or '')}",
        f"isolation    {('none', 'landlock', 'bubblewrap')[record['isolation']]}, {network}",
        *(f"program      {visible(program)}" for program in programs),
        *(f"why asked    {visible(reason['words'])}" for reason in record["reasons"]),
        *([f"agent says   {visible(record['why'])}"] if record["why"] else []),
        f"plan         {record['planHash']}",
        "command:",
        visible(request["command"]),
    ]


def _left(record: dict[str, Any]) -> str:
    if record["status"] != "pending":
        return str(record["status"])
    seconds = record["expiresAtMs"] / 1000 - time.time()
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} left"
    return f"{max(seconds, 0):.0f} s left"
