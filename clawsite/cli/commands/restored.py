"""`claw restored`: the operator's word that the database came from a backup. Works on the database itself."""

import argparse

from clawsite.cli.command import load_django, read_settings
from clawsite.cli.serving.readiness import require_migrated

HELP = "Say that the database came from a backup: clients then read their sessions anew"
EXAMPLES = """examples:
  claw restored        after the backup is in place, before `claw serve` or beside it

A restored database gives out numbers of events again that clients have seen with other events. This marks its event log as
another one, so that every page and program that asks for what it missed is told to read anew, instead of missing something or
showing what is no longer there. Nothing is deleted, and running it once too often costs each client one more reading. A running
gateway sees it within 15 s and closes its sockets; clients come back by themselves.

A process that starts notices most restores on its own, by the note `log.mark` in the state directory. It cannot where that
file came back with the backup, on a new host, or when the backup was newer than the note (renewed every minute).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None: there is nothing to choose."""


def run(_options: argparse.Namespace) -> int:
    load_django(pool=False)
    require_migrated(read_settings())
    from sessions_app.events import epoch

    print(f"The event log has the new epoch {epoch.start_new_epoch()}. Clients read their sessions anew when they connect next.")
    return 0
