"""`claw agent`: send one message through the running gateway and print the answer as it is streamed."""

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
from clawsite.client import Client, ConnectionLost, GatewayError, Unreachable

HELP = "Send a message to an agent and watch its answer"
EXAMPLES = """examples:
  claw agent "What can you do?"
  claw agent "And in French?" --session agent:main:main
  git diff | claw agent - --session agent:main:review     read the message from stdin
  claw agent "Sum up today's notes" --json                print the whole result as JSON at the end

The answer goes to stdout; tool calls and notes go to stderr. Ctrl-C stops the run, not only this command.
A lost connection is resumed. The exit code is 1 if the run failed or was stopped.
By default the command uses the host's own account, with its own sessions and workspace. To use your
account, run `claw token create --user NAME --name terminal` and set CLAWSITE_GATEWAY_TOKEN.
"""

LONG_WAIT_SECONDS = 5.0  # after this delay, explain why nothing is happening


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="the message; - reads it from stdin")
    parser.add_argument("--session", metavar="KEY", help="session to send to (default: the agent's main session)")
    parser.add_argument("--agent", metavar="ID", default="main", help="agent to talk to (default main)")
    parser.add_argument("--timeout", type=int, metavar="SECONDS", help="stop the run after this time (default 600)")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end instead of the answer")
    endpoint.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    text = sys.stdin.read() if options.text == "-" else options.text
    if not text.strip():
        raise CommandFailed("the message is empty.", code=2)
    return endpoint.run_with_gateway(_send_message(options, text))


async def _send_message(options: argparse.Namespace, text: str) -> int:
    answer = io.StringIO() if options.json else sys.stdout
    printer = AnswerPrinter(answer, sys.stderr, shared_output=_is_same_output(answer, sys.stderr))
    client = Client(endpoint.resolve_endpoint(options), on_lost=lambda reason: printer.note("· connection lost; resuming"))
    key = options.session or f"agent:{options.agent}:main"
    run_id = str(uuid.uuid4())
    params = {"timeout": options.timeout} if options.timeout is not None else {}
    async with client:
        reminder = asyncio.create_task(_explain_long_wait(client, key, run_id, printer))
        try:
            async for event in client.run(text, session_key=key, idempotency_key=run_id, **params):
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
        return  # the code that follows the run reports the error
    if active and active["runId"] == run_id:
        return  # the run has just started
    reason = _describe_queue(active) if active else _describe_freeze(health.get("stopped", []), session_key)
    printer.note(f"· queued; {reason}")


def _describe_freeze(freezes: list[dict[str, Any]], session_key: str) -> str:
    for freeze in freezes:
        if freeze["scope"] == "all" or session_key.startswith(f"agent:{freeze['subject']}:"):
            what = "everything" if freeze["scope"] == "all" else f"agent {freeze['subject']}"
            return f"{what} is frozen by {freeze['by']}: {freeze['reason']} (claw panic --list)"
    return "no worker has claimed it yet (claw status)"


def _describe_queue(active: dict[str, Any]) -> str:
    match active["waitingFor"]:
        case None:
            return "the previous run in this session is still running"
        case "approval":
            return "the previous run in this session is waiting for approval (claw approvals list)"
        case "frozen":
            return "the previous run in this session is frozen (claw panic --list)"
        case "child":
            return "the previous run in this session is waiting for another session"
        case reason:
            return f"the previous run in this session is waiting: {reason}"


def _is_same_output(one: TextIO, other: TextIO) -> bool:
    """Whether both are a terminal, or the same file or pipe (`2>&1`)."""
    try:
        return (one.isatty() and other.isatty()) or os.path.sameopenfile(one.fileno(), other.fileno())
    except OSError:  # not a real file
        return False


async def _abort_run(client: Client, session_key: str, run_id: str, printer: AnswerPrinter) -> None:
    try:
        await client.request("chat.abort", {"sessionKey": session_key, "runId": run_id}, timeout=5)
        printer.note("· stopped")
    except (GatewayError, ConnectionLost, TimeoutError) as error:
        printer.note(f"· could not stop the run; it may continue: {error}")


def _print_result(printer: AnswerPrinter, run_id: str, session_key: str) -> None:
    status = "error" if printer.error else "aborted" if printer.aborted else "ok"
    result = {"status": status, "runId": run_id, "sessionKey": session_key, "text": printer.text, "usage": printer.usage}
    if printer.error:
        result["error"] = printer.error
    print(json.dumps(result, ensure_ascii=False, indent=2))
