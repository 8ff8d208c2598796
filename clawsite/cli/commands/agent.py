"""`claw agent`: sends one message through the running gateway and writes the answer as it comes."""

import argparse
import asyncio
import io
import json
import os
import sys
import uuid
from typing import Any, TextIO

from clawsite.cli import endpoint
from clawsite.cli.command import CommandFailed
from clawsite.cli.output import AnswerPrinter
from clawsite.client.client import Client, ConnectionLost, GatewayError, Unreachable

HELP = "Send a message to an agent and watch its answer"
EXAMPLES = """examples:
  claw agent "What can you do?"
  claw agent "And in French?" --session agent:main:main
  git diff | claw agent - --session agent:main:review     the message comes from stdin
  claw agent "Sum up today's notes" --json                the whole result as JSON, when it has ended

The answer goes to stdout; tool calls and notes go to stderr. Ctrl-C stops the run, not only this command.
A lost connection is resumed. The exit code is 1 when the run failed or was stopped.
The terminal speaks as the host's own account, with its own conversations and workspace;
`claw token create --user NAME --name terminal` and CLAWSITE_GATEWAY_TOKEN=… make it speak as you.
"""

LONG_WAIT_SECONDS = 5.0  # seconds after which a person wonders


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="the message; - reads it from stdin")
    parser.add_argument("--session", metavar="KEY", help="session to write in (default: the agent's main session)")
    parser.add_argument("--agent", metavar="ID", default="main", help="agent to talk to (default main)")
    parser.add_argument("--timeout", type=int, metavar="SECONDS", help="end the run after so long (default 600)")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end instead of the answer")
    endpoint.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    text = sys.stdin.read() if options.text == "-" else options.text
    if not text.strip():
        raise CommandFailed("the message is empty.", code=2)
    return endpoint.run_with_gateway(_send_message(options, text))


async def _send_message(options: argparse.Namespace, text: str) -> int:
    answer = io.StringIO() if options.json else sys.stdout
    printer = AnswerPrinter(answer, sys.stderr, one_place=_is_same_output(answer, sys.stderr))
    client = Client(endpoint.resolve_endpoint(options), on_lost=lambda reason: printer.note("· connection lost; resuming"))
    key = options.session or f"agent:{options.agent}:main"
    run_id = str(uuid.uuid4())
    wishes = {"timeout": options.timeout} if options.timeout is not None else {}
    async with client:
        reminder = asyncio.create_task(_explain_long_wait(client, key, run_id, printer))
        try:
            async for event in client.run(text, session_key=key, idempotency_key=run_id, **wishes):
                if event.data.get("phase") != "accepted":
                    reminder.cancel()
                printer.show(event)
        except asyncio.CancelledError:  # Ctrl-C
            await _abort_run(client, key, run_id, printer)
            printer.aborted = True
        finally:
            reminder.cancel()
    if options.json:
        _print_result(printer, run_id, key)
    elif printer.error:
        printer.note(f"claw: {printer.error}")
    return 1 if printer.error or printer.aborted else 0


async def _explain_long_wait(client: Client, session_key: str, run_id: str, printer: AnswerPrinter) -> None:
    await asyncio.sleep(LONG_WAIT_SECONDS)
    try:
        active = (await client.request("chat.history", {"sessionKey": session_key, "limit": 1}))["activeRun"]
        health = await client.request("health") if active is None else {}
    except (GatewayError, ConnectionLost, TimeoutError, Unreachable):
        return  # whoever follows the run says what is wrong
    if active and active["runId"] == run_id:
        return  # it has begun in this very moment
    waits_for = _describe_queue(active) if active else _describe_freeze(health.get("stopped", []), session_key)
    printer.note(f"· queued; {waits_for}")


def _describe_freeze(stops: list[dict[str, Any]], session_key: str) -> str:
    for stop in stops:
        if stop["scope"] == "all" or session_key.startswith(f"agent:{stop['subject']}:"):
            what = "everything" if stop["scope"] == "all" else f"agent {stop['subject']}"
            return f"{what} is stopped by {stop['by']}: {stop['reason']} (claw panic --list)"
    return "no worker has taken it yet (claw status)"


def _describe_queue(active: dict[str, Any]) -> str:
    match active["waitingFor"]:
        case None:
            return "the run before it in this session is still at work"
        case "approval":
            return "a command of the run before it in this session waits for an approval (claw approvals list)"
        case "frozen":
            return "the run before it in this session was stopped and waits to be resumed (claw panic --list)"
        case reason:
            return f"the run before it in this session waits: {reason}"


def _is_same_output(one: TextIO, other: TextIO) -> bool:
    """Both are a terminal, or the same file or pipe (`2>&1`)."""
    try:
        return (one.isatty() and other.isatty()) or os.path.sameopenfile(one.fileno(), other.fileno())
    except OSError:  # not a file of the system
        return False


async def _abort_run(client: Client, session_key: str, run_id: str, printer: AnswerPrinter) -> None:
    try:
        await client.request("chat.abort", {"sessionKey": session_key, "runId": run_id}, timeout=5)
        printer.note("· stopped")
    except (GatewayError, ConnectionLost, TimeoutError) as error:
        printer.note(f"· could not stop the run, it may go on: {error}")


def _print_result(printer: AnswerPrinter, run_id: str, session_key: str) -> None:
    status = "error" if printer.error else "aborted" if printer.aborted else "ok"
    result = {"status": status, "runId": run_id, "sessionKey": session_key, "text": printer.text, "usage": printer.usage}
    if printer.error:
        result["error"] = printer.error
    print(json.dumps(result, ensure_ascii=False, indent=2))
