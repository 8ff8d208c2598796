"""`claw approvals`: the open questions about commands, and answers to them, through the running gateway.

An answer needs the personal token of somebody who may approve: what runs on this host, an agent's command among it, could read
the gateway's own token.
"""

import argparse
import json
import time
import uuid
from typing import Any

from clawsite.cli import endpoint
from clawsite.cli.command import CommandFailed
from clawsite.cli.output import escape_invisible, escape_invisible_line
from clawsite.client.client import Client, ConnectionLost, GatewayError

HELP = "Look at the questions about commands and answer them"
EXAMPLES = """examples:
  claw approvals list
  claw approvals show 3f2a
  claw approvals approve 3f2a
  claw approvals approve 3f2a --for 1h --scope session
  claw approvals approve 3f2a --uses 5
  claw approvals approve 3f2a --always
  claw approvals deny 3f2a --reason "use the staging database"

An id may be shortened, to four characters at least, as long as it is clear which one is meant. To answer,
put a personal token with the scope operator.approvals into CLAWSITE_GATEWAY_TOKEN
(`claw token create --help`, or /account/ in the browser).
"""
UNITS = {"s": 1, "m": 60, "h": 3600}
MAX_LISTED = 200  # that the gateway tells at once
MIN_ID_LENGTH = 4  # characters: nobody approves by a slip of the finger what happens to be the only question


def add_arguments(parser: argparse.ArgumentParser) -> None:
    endpoint.add_arguments(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|approve|deny")
    listing = actions.add_parser("list", help="what waits, oldest first")
    listing.add_argument("--json", action="store_true", help="print the gateway's own answer")
    show = actions.add_parser("show", help="one question in full")
    show.add_argument("--json", action="store_true", help="print the gateway's own answer")
    approve = actions.add_parser("approve", help="let the command run")
    approve.add_argument("--for", dest="seconds", type=_parse_duration, metavar="TIME", help="and the same again for 15m, 1h, 8h …")
    approve.add_argument("--uses", type=int, metavar="N", help="and the same again N times")
    approve.add_argument("--scope", choices=["session", "agent", "directory"], help="where, with --for or --uses (default session)")
    approve.add_argument("--always", action="store_true", help="and the same program with arguments of this shape from now on")
    deny = actions.add_parser("deny", help="refuse the command")
    deny.add_argument("--reason", default="", help="told to the agent")
    for each in (show, approve, deny):
        each.add_argument("id", help="id of the question, or its beginning")


def _parse_duration(text: str) -> int:
    try:
        return int(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 15m, 1h or 90s") from None


def run(options: argparse.Namespace) -> int:
    if options.action == "approve":
        lasts = options.seconds is not None or options.uses is not None
        if options.always and lasts:
            raise CommandFailed("--always does not go with --for or --uses; say one of them.", code=2)
        if options.scope and not lasts:
            raise CommandFailed("--scope goes with --for or --uses.", code=2)
    return endpoint.run_with_gateway(_run_action(options))


async def _run_action(options: argparse.Namespace) -> int:
    async with Client(endpoint.resolve_endpoint(options)) as client:
        try:
            return await _perform(client, options)
        except ConnectionLost as error:
            raise CommandFailed(f"the connection was lost: {error}. Look at `claw approvals list` before you try again.") from error
        except GatewayError as error:
            if (error.error.get("details") or {}).get("code") == "MISSING_SCOPE":
                raise CommandFailed(
                    "this token may not answer questions. Put a personal token with the scope operator.approvals into "
                    "CLAWSITE_GATEWAY_TOKEN, of somebody in the group Approver."
                ) from error
            raise


async def _perform(client: Client, options: argparse.Namespace) -> int:
    if options.action == "list":
        found = await client.request("exec.approval.list", {"limit": MAX_LISTED})
        # As ASCII: what a program reads may pass over a terminal all the same.
        print(json.dumps({"approvals": found}, indent=2) if options.json else "\n".join(_format_table(found)))
        return 0
    record = await _find_approval(client, options.id)
    if options.action == "show":
        print(json.dumps(record, indent=2) if options.json else "\n".join(describe(record)))
        return 0
    # The hash of what was read a moment ago: the answer is to exactly that.
    answer = {"id": record["id"], "planHash": record["planHash"], **_decision_params(options)}
    told = (await client.request("exec.approval.resolve", answer))["approval"]
    if told["status"] == "pending":
        print(f"{told['id'][:8]} agreed; somebody else must agree too")
    else:
        print(f"{told['id'][:8]} {told['status']}: {escape_invisible(told['request']['command'])}")
    return 0


def _decision_params(options: argparse.Namespace) -> dict[str, Any]:
    if options.action == "deny":
        return {"decision": "deny", "reason": options.reason}
    if options.always:
        return {"decision": "allow-always"}
    if options.seconds is None and options.uses is None:
        return {"decision": "allow-once"}
    wish = {"seconds": options.seconds, "uses": options.uses, "scope": options.scope or "session"}
    return {"decision": "allow-for", "for": wish}


async def _find_approval(client: Client, beginning: str) -> dict[str, Any]:
    beginning = beginning.lower()
    if len(beginning) >= len(uuid.UUID(int=0).hex):
        return dict(await client.request("exec.approval.get", {"id": beginning}))
    if len(beginning) < MIN_ID_LENGTH:
        raise CommandFailed(f"{beginning!r} is too short; write at least {MIN_ID_LENGTH} characters of the id.", code=2)
    waiting = await client.request("exec.approval.list", {"limit": MAX_LISTED})
    fitting = [record for record in waiting if record["id"].startswith(beginning)]
    if len(fitting) != 1:
        what = "no open question begins" if not fitting else f"{len(fitting)} open questions begin"
        raise CommandFailed(f"{what} with {beginning!r}; `claw approvals list` shows them. A closed one is found by its whole id.")
    return dict(fitting[0])


def _format_table(records: list[dict[str, Any]]) -> list[str]:
    if not records:
        return ["Nothing waits for an approval that this token's account may see; an approver's token shows all that waits."]
    rows = [(each["id"][:8], _describe_time_left(each), each["request"]["agentId"], each["request"]["command"]) for each in records]
    lines = [
        f"{short}  {left:>9}  {escape_invisible_line(agent):<10}  {escape_invisible_line(line)}"
        for short, left, agent, line in rows
    ]
    return lines if len(records) < MAX_LISTED else [*lines, f"These are the oldest {MAX_LISTED}; there may be more."]


def describe(record: dict[str, Any]) -> list[str]:
    """Everything a person needs to decide. Nothing of it can pass for another part: only the command has lines of its own, and
    it comes last; the agent's words are marked line by line.
    """
    request = record["request"]
    chat = request["sessionKey"] or "no session"
    network = "with network" if record["network"] else "without network"
    facts = [
        ("question", f"{record['id']} ({record['status']}, {_describe_time_left(record)})"),
        ("asked by", f"{record['requester']}, agent {request['agentId']}, in {chat}"),
        ("directory", request["cwd"] or ""),
        ("isolation", f"{('none', 'landlock', 'bubblewrap')[record['isolation']]}, {network}"),
        *(("program", f"{each['name']} = {each['realpath']}") for each in record["executables"]),
        *(("runs script", f"{each['path']} {each['identity'][:12] or '(not there)'}") for each in record["scripts"]),
        *(("writes", path) for path in record["writes"]),
        *(("touches", what) for what in record["touches"]),
        *(("why asked", reason["words"]) for reason in record["reasons"]),
        *(
            [("agreed", f"{len(record['agreed'])} of {record['needed']}: {', '.join(record['agreed'])}")]
            if record["agreed"]
            else []
        ),
        *([("answered", _describe_decision(record))] if record.get("resolvedAtMs") else []),
        *([("you", record["whyNot"])] if record["whyNot"] and record["status"] == "pending" else []),
        ("plan", record["planHash"]),
    ]
    said = [f"agent says   | {escape_invisible_line(line)}" for line in record["why"].splitlines()]
    return [
        *(f"{name:<12} {escape_invisible_line(value)}" for name, value in facts),
        *said,
        "command:",
        escape_invisible(request["command"]),
    ]


def _describe_decision(record: dict[str, Any]) -> str:
    words = f"{record['status']} by {record.get('resolvedBy') or 'nobody'}"
    return f"{words}: {record['reason']}" if record.get("reason") else words


def _describe_time_left(record: dict[str, Any]) -> str:
    if record["status"] != "pending":
        return str(record["status"])
    seconds = record["expiresAtMs"] / 1000 - time.time()
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} left"
    return f"{max(seconds, 0):.0f} s left"
