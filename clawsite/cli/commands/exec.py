"""`claw exec check`: show the exec gate's verdict on a command line. Runs nothing; needs neither database nor gateway."""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clawsite.cli.command import CommandFailed

HELP = "Show the exec gate's verdict on a command line, with reasons"
EXAMPLES = """examples:
  echo 'ls -la | wc -l' | claw exec check --allow ls --allow wc
  echo 'git -c core.pager=x log' | claw exec check --allow git --json
  echo 'rm -rf build' | claw exec check --security full --ask off --cwd ~/project
  claw exec check --jsonl < lines.jsonl         {"id": 1, "command": "ls", "allowlist": ["ls"]} per line, one verdict per line

A pattern is a name found on the fixed PATH (git), a real path (/usr/bin/git) or a glob in which * does not cross / (/usr/bin/*).
The whole input is one command line, newlines included. Nothing is run. The exit code is 0 whatever the verdict is.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="read a command line from standard input and check it",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.add_argument("--security", choices=("deny", "allowlist", "full"), default="allowlist", help="default: allowlist")
    check.add_argument("--ask", choices=("off", "on-miss", "always"), default="on-miss", help="default: on-miss")
    check.add_argument(
        "--allow", action="append", default=[], metavar="PATTERN", help="a program on the allowlist; may be repeated"
    )
    check.add_argument("--cwd", metavar="DIR", default=".", help="working directory and workspace (default: current directory)")
    how = check.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="one JSON object")
    how.add_argument("--jsonl", action="store_true", help="check many command lines: one JSON object per line, in input and output")


def run(options: argparse.Namespace) -> int:
    from tools_app.exec.environment import SEARCH_PATH
    from tools_app.exec.gate.verdict import ExecContext

    cwd = Path(options.cwd).expanduser().resolve()
    if not cwd.is_dir():
        raise CommandFailed(f"{options.cwd} is not a directory", 2)
    context = ExecContext(cwd=cwd, writable=(cwd,), search=tuple(Path(each) for each in SEARCH_PATH))
    if options.jsonl:
        asyncio.run(_check_many(options, context))
        return 0
    # As bytes, so that the gate can deny input that is not UTF-8.
    line = sys.stdin.buffer.read().decode("utf-8", errors="surrogateescape")
    result = asyncio.run(_check_line(line.removesuffix("\n"), options.allow, options, context))
    print(json.dumps(result) if options.json else _format_result(result))
    return 0


async def _check_many(options: argparse.Namespace, context: Any) -> None:
    for raw in sys.stdin.buffer:
        if not raw.strip():
            continue
        request: Any = None
        try:
            request = json.loads(raw)
            command, allow = request["command"], request.get("allowlist", options.allow)
            if not isinstance(command, str) or not all(isinstance(each, str) for each in allow):
                raise TypeError
            result = await _check_line(command, allow, options, context)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            message = 'This is not {"id": …, "command": "…", "allowlist": ["…"]}.'
            result = {"verdict": "deny", "reasons": [{"code": "input", "words": message}], "executables": []}
        sys.stdout.write(json.dumps({"id": request.get("id") if isinstance(request, dict) else None, **result}) + "\n")
        sys.stdout.flush()  # callers may wait for each verdict


async def _check_line(line: str, allow: Iterable[str], options: argparse.Namespace, context: Any) -> dict[str, Any]:
    from tools_app.exec.gate.allowlist import resolve_entry
    from tools_app.exec.gate.types import public_code
    from tools_app.exec.gate.verdict import AllowEntry, GateRules, analyze, judge

    rules = GateRules(options.security, options.ask, tuple(resolve_entry(AllowEntry(pattern)) for pattern in allow))
    verdict = judge(await analyze(line, context), rules)
    return {
        "verdict": verdict.effect,
        "reasons": [{"code": public_code(reason), "words": reason.text} for reason in verdict.reasons],
        "executables": [{"name": each.name, "path": each.path, "realpath": each.realpath} for each in verdict.analysis.executables],
    }


def _format_result(result: dict[str, Any]) -> str:
    from clawsite.cli.output import strip_control_characters  # takes 80 ms to import; not needed for JSON

    lines = [result["verdict"]]
    lines += [f"  {reason['words']}" for reason in result["reasons"]]
    lines += [f"  starts {each['name']}: {each['realpath']}" for each in result["executables"]]
    return strip_control_characters("\n".join(lines))
