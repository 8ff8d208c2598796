"""`claw exec check`: what the exec gate says about a command line. Runs nothing, and needs neither database nor gateway."""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from clawsite.cli.command import CommandFailed

HELP = "Try a command line: what the exec gate says about it, and why"
EXAMPLES = """examples:
  echo 'ls -la | wc -l' | claw exec check --allow ls --allow wc
  echo 'git -c core.pager=x log' | claw exec check --allow git --json
  echo 'rm -rf build' | claw exec check --security full --ask off --cwd ~/project
  claw exec check --jsonl < lines.jsonl         {"id": 1, "command": "ls", "allowlist": ["ls"]} a line, one verdict a line

A pattern is a name found on the fixed PATH (git), a real path (/usr/bin/git) or a glob in which * does not cross / (/usr/bin/*).
The whole input is one command line, newlines included. Nothing of it is run. Exit code 0 whatever the verdict is.
"""
# What a sandboxed command finds, in this order: directories that belong to root.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="read a command line from standard input and judge it",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.add_argument("--security", choices=("deny", "allowlist", "full"), default="allowlist", help="default: allowlist")
    check.add_argument("--ask", choices=("off", "on-miss", "always"), default="on-miss", help="default: on-miss")
    check.add_argument(
        "--allow", action="append", default=[], metavar="PATTERN", help="a program on the allowlist; may be repeated"
    )
    check.add_argument("--cwd", metavar="DIR", default=".", help="where it would run; also the workspace (default: here)")
    how = check.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="one JSON object")
    how.add_argument("--jsonl", action="store_true", help="many command lines: a JSON object a line, in and out")


def run(options: argparse.Namespace) -> int:
    from tools_app.exec.environment import SEARCH_PATH
    from tools_app.exec.gate.verdict import ExecContext

    cwd = Path(options.cwd).expanduser().resolve()
    if not cwd.is_dir():
        raise CommandFailed(f"{options.cwd} is not a directory", 2)
    place = ExecContext(cwd=cwd, writable=(cwd,), search=tuple(Path(each) for each in SEARCH_PATH))
    if options.jsonl:
        asyncio.run(_check_many(options, place))
        return 0
    # As bytes: what is not UTF-8 is for the gate to refuse, not for us to trip over.
    line = sys.stdin.buffer.read().decode("utf-8", errors="surrogateescape")
    told = asyncio.run(_check_line(line.removesuffix("\n"), options.allow, options, place))
    print(json.dumps(told) if options.json else _format_result(told))
    return 0


async def _check_many(options: argparse.Namespace, place: Any) -> None:
    for raw in sys.stdin.buffer:
        if not raw.strip():
            continue
        asked: Any = None
        try:
            asked = json.loads(raw)
            command, allow = asked["command"], asked.get("allowlist", options.allow)
            if not isinstance(command, str) or not all(isinstance(each, str) for each in allow):
                raise TypeError
            told = await _check_line(command, allow, options, place)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            words = 'This is not {"id": …, "command": "…", "allowlist": ["…"]}.'
            told = {"verdict": "deny", "reasons": [{"code": "input", "words": words}], "executables": []}
        sys.stdout.write(json.dumps({"id": asked.get("id") if isinstance(asked, dict) else None, **told}) + "\n")
        sys.stdout.flush()  # who asks one by one waits for it


async def _check_line(line: str, allow: Iterable[str], options: argparse.Namespace, place: Any) -> dict[str, Any]:
    from tools_app.exec.gate.allowlist import resolve_entry
    from tools_app.exec.gate.verdict import AllowEntry, GateRules, analyze, judge

    rules = GateRules(options.security, options.ask, tuple(resolve_entry(AllowEntry(pattern)) for pattern in allow))
    judged = judge(await analyze(line, place), rules)
    return {
        "verdict": judged.effect,
        "reasons": [{"code": reason.code, "words": reason.words} for reason in judged.reasons],
        "executables": [{"name": each.name, "path": each.path, "realpath": each.realpath} for each in judged.analysis.executables],
    }


def _format_result(told: dict[str, Any]) -> str:
    from clawsite.cli.output import strip_control_characters  # 80 ms, and programs ask for JSON

    lines = [told["verdict"]]
    lines += [f"  {reason['words']}" for reason in told["reasons"]]
    lines += [f"  starts {each['name']}: {each['realpath']}" for each in told["executables"]]
    return strip_control_characters("\n".join(lines))
