"""`claw doctor`: check everything that can be wrong with this server, and say how to fix it."""

import argparse
import json
import sys
from dataclasses import asdict

from clawsite.cli.command import read_settings
from clawsite.cli.doctor import host
from clawsite.infra.observability import logs

HELP = "Check this server and explain how to fix problems"
EXAMPLES = """examples:
  claw doctor             one line per check: ok, warn or FAIL
  claw doctor --json      print JSON

The exit code is 1 if a check failed; warnings don't count. Nothing is changed.
"""

MARKS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(options: argparse.Namespace) -> int:
    settings = read_settings()
    logs.configure("doctor", secrets=[settings.SECRET_KEY, settings.GATEWAY_TOKEN])
    findings = host.run_checks(settings)
    if options.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            print(f"{MARKS[finding.level]}  {finding.name:<14}{finding.text}")
            if finding.todo:
                print(f"      {'':<14}→ {finding.todo}")
    failed = sum(finding.level == "fail" for finding in findings)
    if failed and not options.json:
        print(f"\n{failed} of {len(findings)} checks failed.", file=sys.stderr)
    return 1 if failed else 0
