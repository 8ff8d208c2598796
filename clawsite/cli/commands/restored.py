"""`claw restored`: record that the database was restored from a backup. Uses the database directly."""

import argparse

from clawsite.cli.command import load_django, read_settings
from clawsite.cli.serving.readiness import require_migrated

HELP = "Record that the database was restored from a backup, so that clients reload their sessions"
EXAMPLES = """examples:
  claw restored        after restoring the backup, before or while `claw serve` runs

A restored database reuses event numbers that clients have already seen with other events. This marks its event log as a new
one, so that every client that asks for missed events is asked to reload its sessions instead of missing events or showing
deleted ones. Nothing is deleted, and running it unnecessarily costs each client one reload. A running gateway notices within
15 s and closes its sockets; clients reconnect automatically.

Starting processes detect most restores themselves, by the file `log.mark` in the state directory. They can't if that file was
restored too, on a new host, or if the backup is newer than the file (updated every minute).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """This command has no arguments."""


def run(_options: argparse.Namespace) -> int:
    load_django(pool=False)
    require_migrated(read_settings())
    from sessions_app.events import epoch

    print(f"The event log has the new epoch {epoch.start_new_epoch()}. Clients reload their sessions on their next connection.")
    return 0
