"""`claw panic`: freeze everything, one agent or one run, and resume it. Uses the database directly; needs no server."""

import argparse
import getpass
import time
from typing import TYPE_CHECKING

from clawsite.cli.command import CommandFailed, load_django, read_settings
from clawsite.cli.output import strip_control_characters
from clawsite.cli.serving.readiness import require_migrated
from clawsite.infra.errors import ClawError

if TYPE_CHECKING:
    from sessions_app.models import Freeze

HELP = "Freeze everything, one agent or one run immediately, and resume it later"
EXAMPLES = """examples:
  claw panic --reason "it deletes files"                    freeze everything
  claw panic --agent main --reason "wrong model"
  claw panic --run 4711 --reason "runs in circles"          the number in the URL of its page, /runs/4711/
  claw panic --list                                         list freezes with user and reason
  claw panic --resume --reason "it was the test data"       with the same --agent or --run as before

Once this returns, no tool call starts. Running work is halted within two seconds, which this command waits for. Nothing is
lost: messages are still accepted, approval requests can be decided, and everything continues when you resume. A command that
was interrupted is not repeated, and its effects are not undone.

Exit code: 0 done, 1 failed or a worker has not confirmed yet.
"""

CONFIRM_SECONDS = 5.0  # workers check every second; a tool may need another second to stop


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--agent", metavar="ID", help="only this agent (default: everything)")
    what.add_argument("--run", metavar="N", help="only this run")
    do = parser.add_mutually_exclusive_group()
    do.add_argument("--resume", action="store_true", help="resume")
    do.add_argument("--list", action="store_true", help="list freezes and change nothing")
    parser.add_argument("--reason", metavar="TEXT", help="reason, shown to people who are waiting")


def run(options: argparse.Namespace) -> int:
    load_django(pool=False)
    require_migrated(read_settings())
    if options.list:
        return _list_freezes()
    if not options.reason:
        raise CommandFailed("--reason is required: it is shown to people who are waiting", 2)
    scope = "agent" if options.agent else "run" if options.run else "all"
    try:
        act = _resume if options.resume else _freeze
        return act(scope, options.agent or options.run or "", options.reason)
    except ClawError as error:
        raise CommandFailed(error.message) from error


def _freeze(scope: str, subject: str, reason: str) -> int:
    from agents import freezes

    active, created = freezes.freeze(scope, subject, reason=reason, by=None, by_name=_host_account())
    print(strip_control_characters(f"Frozen: {_freeze_label(active)}." if created else f"Already frozen: {_freeze_line(active)}"))
    left = _wait_until_frozen(active)
    if left:
        print(f"{left} runs have not confirmed it yet. Is their worker alive? `claw panic --list` shows when they have.")
    return 1 if left else 0


def _wait_until_frozen(freeze: "Freeze") -> int:
    """Wait until no live worker is working on frozen runs; return how many such runs are left."""
    from sessions_app.runs import freezes

    give_up = time.monotonic() + CONFIRM_SECONDS
    while left := freezes.count_still_running([freeze], gone=_list_dead_workers()):
        if time.monotonic() > give_up:
            break
        time.sleep(0.05)
    return left


def _list_dead_workers() -> list[str]:
    """Return this host's dead workers (all of them if the server is down): they do nothing, whatever their rows say."""
    from clawsite.infra.process.identity import is_alive, own_identity
    from sessions_app.runs import workers

    return workers.find_dead_on_this_host(own_identity(), is_alive)


def _resume(scope: str, subject: str, reason: str) -> int:
    from sessions_app.runs import freezes

    lifted = freezes.resume(scope, subject, reason=reason, by=None, by_name=_host_account())
    print(strip_control_characters(f"Resumed: {_freeze_label(lifted)}."))
    _list_freezes(quiet=True)
    return 0


def _list_freezes(*, quiet: bool = False) -> int:
    from sessions_app.runs import freezes

    active = freezes.list_active()
    for each in active:
        print(strip_control_characters(_freeze_line(each)))
    if not active and not quiet:
        print("Nothing is frozen.")
    if left := freezes.count_still_running(active, gone=_list_dead_workers()):
        print(f"{left} runs have not confirmed it yet.")
    return 0


def _freeze_label(freeze: "Freeze") -> str:
    return "everything" if freeze.scope == freeze.Scope.ALL else f"{freeze.scope} {freeze.subject}"


def _freeze_line(freeze: "Freeze") -> str:
    return f"{_freeze_label(freeze)}, since {freeze.at:%Y-%m-%d %H:%M:%S} UTC, by {freeze.by_name}: {freeze.reason}"


def _host_account() -> str:
    """Return the host account, the only identity on a command line."""
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):
        return "command line"
