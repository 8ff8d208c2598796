"""Databases of older versions: dumps in tests/data, restored for `claw serve` to upgrade."""

import gzip
import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from django.db import connection

from tests.journeys.claw_command import run_claw
from tests.journeys.test_cli_serve import PATIENCE, Served

DUMPS = Path(__file__).parent.parent / "data"


class OldDatabase:
    """A database restored from a dump, and the settings `claw` needs to use it."""

    def __init__(self, home: Path, dump: str) -> None:
        self.home, self.settings = home, {}
        text = gzip.decompress((DUMPS / f"{dump}.{connection.vendor}.sql.gz").read_bytes()).decode()
        home.mkdir()
        if connection.vendor == "sqlite":
            with sqlite3.connect(home / "clawsite.sqlite3") as database:
                database.executescript(text)
            database.close()
            return
        server, name = os.environ["DATABASE_URL"].rsplit("/", 1)
        copy = f"{dump}_{os.getpid()}"
        self.url = f"{server}/{copy}"
        with psycopg.connect(f"{server}/{name}", autocommit=True) as database:
            database.execute(f"DROP DATABASE IF EXISTS {copy}")
            database.execute(f"CREATE DATABASE {copy}")
        with psycopg.connect(self.url) as database:
            database.execute(text)
        self.settings = {"DATABASE_URL": self.url, "REDIS_URL": os.environ["REDIS_URL"]}

    def query(self, statement: str) -> list[str]:
        """The first column of each row, sorted."""
        if connection.vendor == "sqlite":
            with sqlite3.connect(self.home / "clawsite.sqlite3", timeout=20) as database:
                rows = database.execute(statement).fetchall()
            database.close()
        else:
            with psycopg.connect(self.url) as database:
                rows = database.execute(statement).fetchall()
        return sorted(str(row[0]) for row in rows)

    @contextmanager
    def upgrade(self) -> "Iterator[UpgradedServer]":
        """Serve the database with this version, which migrates it first."""
        served = Served(self.home, **self.settings).start()
        try:
            yield UpgradedServer(served.until_running())
            served.process.send_signal(signal.SIGTERM)
            assert served.process.wait(PATIENCE) == 0
        finally:
            served.end()


class UpgradedServer:
    def __init__(self, served: Served) -> None:
        self.served = served

    def run(self, *arguments: str, token: str = "") -> str:
        outcome = run_claw(*arguments, env=self.served.env | ({"CLAWSITE_GATEWAY_TOKEN": token} if token else {}))
        assert outcome.code == 0, outcome.err
        return outcome.out

    def create_token(self, user: str, scope: str) -> str:
        printed = self.run("token", "create", "--user", user, "--name", "upgrade", "--scope", scope)
        return re.search(r"claw_\S+", printed)[0]  # type: ignore[index]
