"""`claw import`: create a session from a transcript in JSON lines. Writes to the database directly, all or nothing."""

import argparse
import contextlib
import sys
from typing import IO

from clawsite.cli.command import CommandFailed, load_django
from clawsite.cli.commands.export import find_account
from clawsite.infra.errors import ClawError

HELP = "Create a session from a transcript written by `claw export`"
EXAMPLES = """examples:
  claw import --user ada --session agent:main:notes notes.jsonl
  gunzip -c notes.jsonl.gz | claw import --user ada --session agent:main:notes
  claw export --user ada --session main | claw import --user bob --session agent:main:from-ada

Every line is checked first. If one is invalid, its number is reported and nothing is written. The session must be new or
empty. Entries keep their IDs, times and generations, but belong to no run; nothing in them is executed.
Limits: 8 MiB per line, 100,000 lines per file.
"""

STDIN = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", metavar="NAME", required=True, help="owner of the new session")
    parser.add_argument("--session", metavar="KEY", required=True, help="key of the new session, such as agent:main:notes")
    parser.add_argument("file", metavar="FILE", nargs="?", default=STDIN, help="the transcript (default: - for standard input)")


def run(options: argparse.Namespace) -> int:
    load_django(pool=False)
    from sessions_app.sessions.transfer import import_transcript

    user = find_account(options.user)
    with _open_input(options.file) as file:
        try:
            imported = import_transcript(user, options.session, file)
        except ClawError as error:
            raise CommandFailed(f"nothing was imported: {error.message}") from error
    print(f"{imported.entries:,} entries imported into {imported.session.key} of {user.username}")
    return 0


def _open_input(name: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    if name == STDIN:
        return contextlib.nullcontext(sys.stdin.buffer)
    try:
        return open(name, "rb")
    except OSError as error:
        raise CommandFailed(f"cannot read {name}: {error.strerror}") from error
