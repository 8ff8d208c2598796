"""A database that comes back from a backup: noticed by itself at the next start, or said by an operator."""

import shutil
import signal
import sqlite3
from pathlib import Path

import pytest

from tests.journeys.claw_command import run_claw
from tests.journeys.test_cli_serve import PATIENCE, Served

pytestmark = pytest.mark.dialect


def epoch_in(database: Path) -> str:
    connection = sqlite3.connect(database)
    try:
        return str(connection.execute("SELECT epoch FROM sessions_app_eventlog").fetchone()[0])
    finally:
        connection.close()


def serve_for_a_moment(home: Path) -> Served:
    served = Served(home).start()
    try:
        served.until_running()
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE) == 0
    finally:
        served.end()
    return served


def test_a_restored_backup_is_another_log_and_an_ordinary_restart_is_not(tmp_path: Path) -> None:
    home, backup = tmp_path / "home", tmp_path / "backup.sqlite3"
    database = home / "clawsite.sqlite3"
    serve_for_a_moment(home)
    first = epoch_in(database)
    shutil.copy(database, backup)
    serve_for_a_moment(home)
    assert epoch_in(database) == first
    for leftover in home.glob("clawsite.sqlite3*"):
        leftover.unlink()
    shutil.copy(backup, database)
    served = serve_for_a_moment(home)
    noticed = epoch_in(database)
    assert noticed != first
    assert sum("older than last seen by this host" in line for line in served.err) == 1
    said = run_claw("restored", env=served.env)
    assert (said.code, epoch_in(database) != noticed) == (0, True)
    assert epoch_in(database) in said.out


def test_a_database_that_was_never_prepared_cannot_have_been_restored(tmp_path: Path) -> None:
    outcome = run_claw("restored", env={**Served(tmp_path / "home").env})
    assert outcome.code == 1
    assert "claw prepare" in outcome.err
