"""`claw audit`: verify the audit log, export it as JSON lines, and write the head of its hash chain to a file."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clawsite.cli.command import CommandFailed, load_django
from clawsite.cli.output import strip_control_characters

if TYPE_CHECKING:
    from clawsite.infra.audit.verify import VerificationReport

HELP = "Verify, export and anchor the audit log"
EXAMPLES = """examples:
  claw audit verify                                      exit code 1 if a row was changed, removed, added or moved
  claw audit verify --anchor /mnt/elsewhere/audit.jsonl --json
  claw audit export --since 2026-01-31 > january.jsonl   one entry per line, oldest first; the export is recorded
  claw audit anchor /mnt/elsewhere/audit.jsonl           append the chain head's position and hash to the file

Set CLAWSITE_AUDIT_ANCHOR to a file, preferably on append-only storage, and workers append the head to it every ten minutes;
`verify` then compares with every line of it. Without an anchor, `verify` can't detect that the end was cut off, or that
the database owner rewrote the whole chain. The gateway may be running.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    verify = actions.add_parser("verify", help="verify the hash chain and list broken entries")
    verify.add_argument("--anchor", metavar="FILE", help="compare with the heads in this file (default CLAWSITE_AUDIT_ANCHOR)")
    verify.add_argument("--json", action="store_true", help="print JSON")
    export = actions.add_parser("export", help="write the entries as JSON lines")
    export.add_argument(
        "--since",
        metavar="TIME",
        type=_parse_time,
        help="only entries since this time, such as 2026-01-31 or 2026-01-31T09:00+01:00",
    )
    anchor = actions.add_parser("anchor", help="append the chain head to a file")
    anchor.add_argument("file", metavar="FILE")


def run(options: argparse.Namespace) -> int:
    load_django(pool=False)
    return ACTIONS[options.action](options)


def _verify(options: argparse.Namespace) -> int:
    from django.conf import settings

    from clawsite.infra.audit import anchor as audit_anchor
    from clawsite.infra.audit.verify import verify

    name = options.anchor or settings.AUDIT_ANCHOR
    try:
        report = verify(audit_anchor.read_anchors(Path(name)) if name else ())
    except audit_anchor.BadAnchor as bad:
        raise CommandFailed(str(bad)) from bad
    except OSError as error:
        raise CommandFailed(f"cannot read the anchors in {name}: {error.strerror}") from error
    if options.json:
        print(json.dumps(_report_to_json(report), indent=2))
    else:
        _print_report(report)
    return 0 if report.whole else 1


def _report_to_json(report: "VerificationReport") -> dict[str, Any]:
    oldest = report.oldest_unsealed
    return {
        "whole": report.whole,
        "position": report.position,
        "hash": report.hash,
        "sealed": report.sealed,
        "unsealed": report.unsealed,
        "oldestUnsealed": oldest.isoformat() if oldest else None,
        "anchors": report.anchors,
        "findings": [asdict(finding) for finding in report.findings],
        "moreFindings": report.more,
    }


def _print_report(report: "VerificationReport") -> None:
    for finding in report.findings:
        print(strip_control_characters(f"{finding.kind:<10} {finding.words}"))
    if report.more:
        print(f"… and {report.more:,} more")
    if report.oldest_unsealed:
        print(f"Entries not chained yet: {report.unsealed:,}, the oldest from {report.oldest_unsealed:%Y-%m-%d %H:%M:%S} UTC.")
    checked = f"{report.sealed:,} chained entries, {report.anchors:,} anchors"
    if report.whole:
        print(f"The audit log is intact: {checked}; head {report.position} {report.hash}")
    else:
        count = len(report.findings) + report.more
        print(f"claw: the audit log was tampered with: {count:,} findings in {checked}", file=sys.stderr)


def _export(options: argparse.Namespace) -> int:
    from clawsite.infra.audit import export as audit_export
    from clawsite.infra.audit import log as audit_log
    from clawsite.infra.models import AuditEntry

    entries = AuditEntry.objects.all()
    if options.since:
        entries = entries.filter(at__gte=options.since)
    audit_log.record("audit.exported", since=options.since.isoformat() if options.since else "the beginning")
    for lines in audit_export.iterate_pages(entries):
        sys.stdout.buffer.write(lines)
    sys.stdout.buffer.flush()
    return 0


def _anchor(options: argparse.Namespace) -> int:
    from clawsite.infra.audit import anchor as audit_anchor

    try:
        anchor = audit_anchor.append_anchor(Path(options.file))
    except OSError as error:
        raise CommandFailed(f"cannot append to {options.file}: {error.strerror}") from error
    print(f"Added position {anchor.position}, {anchor.hash}." if anchor else "Nothing to add: the last line already has the head.")
    return 0


def _parse_time(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid time {text!r}: use 2026-01-31 or 2026-01-31T09:00+01:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {"verify": _verify, "export": _export, "anchor": _anchor}
