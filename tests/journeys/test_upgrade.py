"""Upgrade a database written by the last version before the packages were rearranged (webhooks still in the app `gateway`).

The dumps hold the user ada with a group that may edit webhooks, the approver bob, two chats, a webhook, a pending approval and a
decided one. `claw serve` migrates the database, as it does for an administrator who installs a new version.
"""

import gzip
import json
import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import connection

from tests.journeys.claw_command import run_claw
from tests.journeys.test_cli_serve import PATIENCE, Served

pytestmark = pytest.mark.dialect

DUMPS = Path(__file__).parent.parent / "data"
PERMISSIONS = "SELECT codename FROM auth_permission p JOIN auth_group_permissions g ON g.permission_id = p.id"
OLD_VERDICT = '{"kept": ["exec"], "trace": {}, "not_offered": "there is no workspace"}'
COPIED = "name, arguments, lease_token, query, policy_version, is_error, created_at, run_id, session_id"
ADD_OLD_CALL = f"""
    INSERT INTO sessions_app_toolcall (call_id, position, status, refused_by, verdict, {COPIED})
    SELECT 'old', 1, 'refused', 'toolset', '{OLD_VERDICT}', {COPIED} FROM sessions_app_toolcall RETURNING id
"""
WEBHOOK_EDITORS = f"{PERMISSIONS} JOIN auth_group ON auth_group.id = g.group_id WHERE auth_group.name = 'Webhook keepers'"


def read_dump() -> str:
    return gzip.decompress((DUMPS / f"database_before_packages.{connection.vendor}.sql.gz").read_bytes()).decode()


class OldDatabase:
    """A database restored from the dump, and the settings `claw` needs to use it."""

    def __init__(self, home: Path) -> None:
        self.home, self.settings = home, {}
        home.mkdir()
        if connection.vendor == "sqlite":
            with sqlite3.connect(home / "clawsite.sqlite3") as database:
                database.executescript(read_dump())
            database.close()
            return
        server, name = os.environ["DATABASE_URL"].rsplit("/", 1)
        self.url = f"{server}/upgrade_{os.getpid()}"
        with psycopg.connect(f"{server}/{name}", autocommit=True) as database:
            database.execute(f"CREATE DATABASE upgrade_{os.getpid()}")
        with psycopg.connect(self.url) as database:
            database.execute(read_dump())
        self.settings = {"DATABASE_URL": self.url, "REDIS_URL": os.environ["REDIS_URL"]}

    def query(self, statement: str) -> list[str]:
        """The first column of each row, sorted."""
        if connection.vendor == "sqlite":
            with sqlite3.connect(self.home / "clawsite.sqlite3") as database:
                rows = database.execute(statement).fetchall()
            database.close()
        else:
            with psycopg.connect(self.url) as database:
                rows = database.execute(statement).fetchall()
        return sorted(str(row[0]) for row in rows)


@pytest.fixture
def old_database(django_db_setup: None, tmp_path: Path) -> OldDatabase:
    return OldDatabase(tmp_path / "home")


@pytest.fixture
def upgraded(old_database: OldDatabase) -> Iterator[Served]:
    served = Served(old_database.home, **old_database.settings).start()
    try:
        yield served.until_running()
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE) == 0
    finally:
        served.end()


def test_old_database_is_upgraded_and_keeps_its_rows(old_database: OldDatabase, request: pytest.FixtureRequest) -> None:
    groups_before = old_database.query(PERMISSIONS)
    old_database.query(ADD_OLD_CALL)
    upgraded: Served = request.getfixturevalue("upgraded")

    assert old_database.query(WEBHOOK_EDITORS) == ["add_hook", "change_hook", "delete_hook", "view_hook"]
    assert old_database.query(PERMISSIONS) == groups_before, "a group lost or gained a permission"
    assert old_database.query("SELECT app_label FROM django_content_type WHERE model = 'hook'") == ["connectors"]

    (verdict,) = old_database.query("SELECT CAST(verdict AS TEXT) FROM sessions_app_toolcall WHERE call_id = 'old'")
    assert json.loads(verdict)["not_offered"] == {"code": "tool.no_workspace"}

    def run(*arguments: str, token: str = "") -> str:
        outcome = run_claw(*arguments, env=upgraded.env | ({"CLAWSITE_GATEWAY_TOKEN": token} if token else {}))
        assert outcome.code == 0, outcome.err
        return outcome.out

    def create_token(user: str, scope: str) -> str:
        printed = run("token", "create", "--user", user, "--name", "upgrade", "--scope", scope)
        return re.search(r"claw_\S+", printed)[0]  # type: ignore[index]

    ada, bob = create_token("ada", "operator.write"), create_token("bob", "operator.approvals")
    # The search index was restored too.
    hits = json.loads(run("call", "sessions.search", "--params", '{"query": "東京都"}', token=ada))
    assert "lobster" in json.dumps(hits)
    assert "demo" in run("agent", "What can you do?", token=ada)
    pending = run("approvals", "list", token=bob)
    assert "git status" in pending
    approval = old_database.query("SELECT id FROM tools_app_approval WHERE status = 'pending'")[0]
    run("approvals", "deny", approval, "--reason", "no", token=bob)
    assert "git status" not in run("approvals", "list", token=bob)
    assert old_database.query(f"SELECT status FROM tools_app_approval WHERE id = '{approval}'") == ["denied"]
    assert run("audit", "verify")
