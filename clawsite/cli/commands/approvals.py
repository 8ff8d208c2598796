"""`claw approvals`: list, approve and deny pending approval requests through the running gateway.

Deciding needs an approver's access token: anything that runs on this host, including agents' commands, could read the gateway
token.
"""

import argparse
import json
import time
import uuid
from typing import Any

from clawsite.cli import endpoint
from clawsite.cli.command import CommandFailed
from clawsite.cli.output import escape_invisible, escape_invisible_line
from clawsite.client import Client, ConnectionLost, GatewayError

HELP = "List approval requests and decide them"
EXAMPLES = """examples:
  claw approvals list
  claw approvals show 3f2a
  claw approvals approve 3f2a
  claw approvals approve 3f2a --for 1h --scope session
  claw approvals approve 3f2a --uses 5
  claw approvals approve 3f2a --always
  claw approvals deny 3f2a --reason "use the staging database"

IDs can be shortened to four or more characters as long as they are unambiguous. To approve or deny, set
CLAWSITE_GATEWAY_TOKEN to an access token with the scope operator.approvals
(`claw token create --help`, or /account/ in the browser).
"""
UNITS = {"s": 1, "m": 60, "h": 3600}
MAX_LISTED = 200  # per gateway response
MIN_ID_LENGTH = 4  # characters; keeps a typo from approving the only pending request


def add_arguments(parser: argparse.ArgumentParser) -> None:
    endpoint.add_arguments(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|approve|deny")
    listing = actions.add_parser("list", help="list pending requests, oldest first")
    listing.add_argument("--json", action="store_true", help="print the gateway's response")
    show = actions.add_parser("show", help="show one request in full")
    show.add_argument("--json", action="store_true", help="print the gateway's response")
    approve = actions.add_parser("approve", help="allow the command")
    approve.add_argument("--for", dest="seconds", type=_parse_duration, metavar="TIME", help="also allow it for 15m, 1h, 8h …")
    approve.add_argument("--uses", type=int, metavar="N", help="also allow it N more times")
    approve.add_argument("--scope", choices=["session", "agent", "directory"], help="scope of --for or --uses (default session)")
    approve.add_argument("--always", action="store_true", help="always allow this program with arguments like these")
    deny = actions.add_parser("deny", help="deny the command")
    deny.add_argument("--reason", default="", help="reason, shown to the agent")
    for each in (show, approve, deny):
        each.add_argument("id", help="ID of the request, or its beginning")


def _parse_duration(text: str) -> int:
    try:
        return int(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid duration {text!r}: use 15m, 1h or 90s") from None


def run(options: argparse.Namespace) -> int:
    if options.action == "approve":
        has_terms = options.seconds is not None or options.uses is not None
        if options.always and has_terms:
            raise CommandFailed("--always can't be combined with --for or --uses.", code=2)
        if options.scope and not has_terms:
            raise CommandFailed("--scope needs --for or --uses.", code=2)
    return endpoint.run_with_gateway(_run_action(options))


async def _run_action(options: argparse.Namespace) -> int:
    async with Client(endpoint.resolve_endpoint(options)) as client:
        try:
            return await _perform(client, options)
        except ConnectionLost as error:
            raise CommandFailed(f"the connection was lost: {error}. Check `claw approvals list` before you try again.") from error
        except GatewayError as error:
            if (error.error.get("details") or {}).get("code") == "MISSING_SCOPE":
                raise CommandFailed(
                    "this token can't approve or deny. Set CLAWSITE_GATEWAY_TOKEN to an access token with the scope "
                    "operator.approvals of a user in the group Approver."
                ) from error
            raise


async def _perform(client: Client, options: argparse.Namespace) -> int:
    if options.action == "list":
        approvals = await client.request("exec.approval.list", {"limit": MAX_LISTED})
        # Escaped to ASCII, because the JSON may be shown in a terminal too.
        print(json.dumps({"approvals": approvals}, indent=2) if options.json else "\n".join(_format_table(approvals)))
        return 0
    record = await _find_approval(client, options.id)
    if options.action == "show":
        print(json.dumps(record, indent=2) if options.json else "\n".join(describe(record)))
        return 0
    # Send the hash of the plan that was just read, so that the decision applies to exactly that plan.
    params = {"id": record["id"], "planHash": record["planHash"], **_decision_params(options)}
    approval = (await client.request("exec.approval.resolve", params))["approval"]
    if approval["status"] == "pending":
        print(f"{approval['id'][:8]} approved; another approver must approve it too")
    else:
        print(f"{approval['id'][:8]} {approval['status']}: {escape_invisible(approval['request']['command'])}")
    return 0


def _decision_params(options: argparse.Namespace) -> dict[str, Any]:
    if options.action == "deny":
        return {"decision": "deny", "reason": options.reason}
    if options.always:
        return {"decision": "allow-always"}
    if options.seconds is None and options.uses is None:
        return {"decision": "allow-once"}
    terms = {"seconds": options.seconds, "uses": options.uses, "scope": options.scope or "session"}
    return {"decision": "allow-for", "for": terms}


async def _find_approval(client: Client, beginning: str) -> dict[str, Any]:
    beginning = beginning.lower()
    if len(beginning) >= len(uuid.UUID(int=0).hex):
        return dict(await client.request("exec.approval.get", {"id": beginning}))
    if len(beginning) < MIN_ID_LENGTH:
        raise CommandFailed(f"{beginning!r} is too short; type at least {MIN_ID_LENGTH} characters of the ID.", code=2)
    pending = await client.request("exec.approval.list", {"limit": MAX_LISTED})
    matches = [record for record in pending if record["id"].startswith(beginning)]
    if len(matches) != 1:
        what = "no pending request starts" if not matches else f"{len(matches)} pending requests start"
        raise CommandFailed(f"{what} with {beginning!r}; `claw approvals list` shows them. Closed ones need the full ID.")
    return dict(matches[0])


def _format_table(records: list[dict[str, Any]]) -> list[str]:
    if not records:
        return ["No pending approval requests are visible to this token's account; an approver's token shows all."]
    rows = [(each["id"][:8], _describe_time_left(each), each["request"]["agentId"], each["request"]["command"]) for each in records]
    lines = [
        f"{short}  {left:>9}  {escape_invisible_line(agent):<10}  {escape_invisible_line(line)}"
        for short, left, agent, line in rows
    ]
    return lines if len(records) < MAX_LISTED else [*lines, f"These are the oldest {MAX_LISTED}; there may be more."]


def describe(record: dict[str, Any]) -> list[str]:
    """Describe everything needed for a decision.

    No part can be mistaken for another: only the command can have several lines, and it comes last; each line of the agent's
    text has a prefix.
    """
    request = record["request"]
    chat = request["sessionKey"] or "no session"
    network = "with network" if record["network"] else "without network"
    facts = [
        ("request", f"{record['id']} ({record['status']}, {_describe_time_left(record)})"),
        ("requested by", f"{record['requester']}, agent {request['agentId']}, in {chat}"),
        ("directory", request["cwd"] or ""),
        ("isolation", f"{('none', 'landlock', 'bubblewrap')[record['isolation']]}, {network}"),
        *(("program", f"{each['name']} = {each['realpath']}") for each in record["executables"]),
        *(("runs script", f"{each['path']} {each['identity'][:12] or '(missing)'}") for each in record["scripts"]),
        *(("writes", path) for path in record["writes"]),
        *(("touches", what) for what in record["touches"]),
        *(("reason", reason["words"]) for reason in record["reasons"]),
        *(
            [("approved", f"{len(record['agreed'])} of {record['needed']}: {', '.join(record['agreed'])}")]
            if record["agreed"]
            else []
        ),
        *([("decided", _describe_decision(record))] if record.get("resolvedAtMs") else []),
        *([("you", record["whyNot"])] if record["whyNot"] and record["status"] == "pending" else []),
        ("plan", record["planHash"]),
    ]
    agent_text = [f"agent says   | {escape_invisible_line(line)}" for line in record["why"].splitlines()]
    return [
        *(f"{name:<12} {escape_invisible_line(value)}" for name, value in facts),
        *agent_text,
        "command:",
        escape_invisible(request["command"]),
    ]


def _describe_decision(record: dict[str, Any]) -> str:
    text = f"{record['status']} by {record.get('resolvedBy') or 'no one'}"
    return f"{text}: {record['reason']}" if record.get("reason") else text


def _describe_time_left(record: dict[str, Any]) -> str:
    if record["status"] != "pending":
        return str(record["status"])
    seconds = record["expiresAtMs"] / 1000 - time.time()
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} left"
    return f"{max(seconds, 0):.0f} s left"
