"""`claw prepare`: apply migrations, collect static files, create the first sign-in link. `serve` runs it as a child process.

Safe to repeat and to run on several hosts at once: on PostgreSQL they take turns.
"""

import argparse
import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

from clawsite.cli.command import load_django, read_settings
from clawsite.cli.serving.readiness import static_is_current
from clawsite.infra.observability import logs
from clawsite.infra.process import child
from clawsite.infra.version import version

HELP = "Migrate the database, collect static files, print the first sign-in link; `serve` does this automatically"
EXAMPLES = """examples:
  claw prepare           once per release, before starting `web` and `worker` processes by hand
  claw prepare --json    one JSON object per line: {"step": …} while it works, {"done": …} at the end
"""

_MIGRATION_LOCK_ID = 0x0C1A_7517E  # an arbitrary key for PostgreSQL's advisory lock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON lines")
    parser.add_argument("--gently", action="store_true", help="run at low CPU priority")


def run(options: argparse.Namespace) -> int:
    child.end_with_parent()
    if options.gently:
        os.nice(10)
    settings = read_settings()
    logs.configure("prepare", secrets=[settings.SECRET_KEY, settings.GATEWAY_TOKEN])
    load_django(pool=False)

    def report(line: dict[str, Any]) -> None:
        print(json.dumps(line) if options.json else _format_line(line), flush=True)

    with _migration_lock():
        if count := _count_unapplied():
            report({"step": f"Applying {count} migrations to the database."})
        _migrate()
        if not static_is_current(settings):
            report({"step": "Collecting static files."})
            _collect_static()
        report({"done": _first_steps(settings)})
    return 0


@contextlib.contextmanager
def _migration_lock() -> Iterator[None]:
    """Keep two hosts from migrating one PostgreSQL database at the same time. On SQLite, the lock of `serve` is enough."""
    from django.db import connection

    connection.ensure_connection()
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [_MIGRATION_LOCK_ID])
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [_MIGRATION_LOCK_ID])


def _count_unapplied() -> int:
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def _migrate() -> None:
    """Run `migrate` even if there is nothing to apply: its post_migrate receivers install groups, lanes and triggers."""
    from django.core.management import call_command

    call_command("migrate", interactive=False, verbosity=0)


def _collect_static() -> None:
    from django.core.management import call_command

    call_command("collectstatic", interactive=False, verbosity=0)


def _first_steps(settings: Any) -> dict[str, Any]:
    from agents.models import MAIN_AGENT
    from agents.selectors import choose_model_name, find_agent
    from clawsite.accounts.models import User
    from clawsite.accounts.sign_in import first_admin

    link = first_admin.create_first_admin_link(settings.ALLOWED_ORIGINS[0])
    people = User.objects.filter(is_active=True, is_service=False, is_staff=True).order_by("pk")
    names = list(people.values_list("username", flat=True)[:3])
    return {"link": link, "people": names, "model": choose_model_name(find_agent(MAIN_AGENT)), "version": version()}


def _format_line(line: dict[str, Any]) -> str:
    if "step" in line:
        return str(line["step"])
    done = line["done"]
    return f"Ready. First sign-in: {done['link']}" if done["link"] else "Ready."
