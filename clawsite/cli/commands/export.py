"""`claw export`: write a session's transcript as JSON lines. Reads the database directly, so no gateway is needed."""

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from clawsite.cli.command import CommandFailed, load_django
from clawsite.infra.errors import ClawError

if TYPE_CHECKING:
    from clawsite.accounts.models import User

HELP = "Write the transcript of a session as JSON lines"
EXAMPLES = """examples:
  claw export --user ada --session main -o main.jsonl
  claw export --user ada --session agent:main:notes | gzip > notes.jsonl.gz
  claw export --user ada --session main --all-generations -o all.jsonl     include entries before a reset
  claw export --user ada --session main | jq -r 'select(.message.role == "user") | .message.content[].text'

The first line describes the session, each further one is an entry, oldest first: type message, toolResult, compaction or
session, with id, parentId, timestamp and message. `claw import` reads it. A file written with -o is readable only by this account.
The gateway may be running: messages that arrive during the export are left out.
"""

PROGRESS_EVERY = 1_000  # entries


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", metavar="NAME", required=True, help="owner of the session")
    parser.add_argument("--session", metavar="KEY", required=True, help="key of the session, such as main or agent:main:notes")
    parser.add_argument("--all-generations", action="store_true", help="include entries before a reset")
    parser.add_argument("-o", "--output", metavar="FILE", help="write to this file instead of standard output")


def run(options: argparse.Namespace) -> int:
    load_django(pool=False)
    from sessions_app.sessions.service import find_session
    from sessions_app.sessions.transfer import export_lines

    try:
        session = find_session(find_account(options.user), key=options.session)
    except ClawError as error:
        raise CommandFailed(error.message) from error
    lines = export_lines(session, all_generations=options.all_generations)
    if options.output:
        with _private_file(Path(options.output)) as file:
            _write_lines(lines, file)
    else:
        _write_lines(lines, sys.stdout.buffer)
    return 0


def find_account(name: str) -> "User":
    from clawsite.accounts.models import User

    user = User.objects.filter(username=name).first()
    if user is None:
        raise CommandFailed(f"there is no account named {name!r}; the accounts are listed in the admin under Users")
    return user


def _write_lines(lines: Iterator[bytes], file: IO[bytes]) -> None:
    from sessions_app.sessions.jsonl import MAX_LINE_BYTES, MAX_LINES

    watched = sys.stderr.isatty()
    number = too_long = 0
    for number, line in enumerate(lines, 1):
        file.write(line)
        too_long += len(line) > MAX_LINE_BYTES + 1  # the line break does not count
        if watched and number % PROGRESS_EVERY == 0:
            print(f"\r{number:,} entries", end="", file=sys.stderr, flush=True)
    file.flush()
    if watched and number >= PROGRESS_EVERY:
        print(f"\r{number - 1:,} entries", file=sys.stderr)
    if too_long or number > MAX_LINES:
        reason = (
            f"{too_long:,} lines are longer than {MAX_LINE_BYTES:,} bytes" if too_long else f"it has more than {MAX_LINES:,} lines"
        )
        print(f"claw: the export is complete, but `claw import` will reject it: {reason}", file=sys.stderr)


@contextlib.contextmanager
def _private_file(path: Path) -> Iterator[IO[bytes]]:
    """Write to a temporary file that replaces `path` when complete; readable by its owner only."""
    if path.exists() and not path.is_file():
        raise CommandFailed(f"{path} is not a file; omit -o to write to standard output")
    try:
        descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")  # mode 0600
    except OSError as error:
        raise CommandFailed(f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise
