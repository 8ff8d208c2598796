"""A database restored from a backup: detected at the next start, or reported by an operator."""

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


def test_restored_backup_starts_a_new_epoch_but_a_restart_does_not(tmp_path: Path) -> None:
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
    outcome = run_claw("restored", env=served.env)
    assert (outcome.code, epoch_in(database) != noticed) == (0, True)
    assert epoch_in(database) in outcome.out


def test_restored_fails_on_an_unmigrated_database(tmp_path: Path) -> None:
    outcome = run_claw("restored", env={**Served(tmp_path / "home").env})
    assert outcome.code == 1
    assert "claw prepare" in outcome.err
