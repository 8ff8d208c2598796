"""Environment errors are explained with a remedy; bugs keep their traceback."""

import errno

import psycopg
import pytest
from django.db import IntegrityError, OperationalError, ProgrammingError

from clawsite.cli import errors
from clawsite.infra.config.environment import SettingsError


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SettingsError("set X to Y"), "set X to Y"),
        (OperationalError("unable to open database file"), "does its directory exist"),
        (OperationalError("attempt to write a readonly database"), "read-only: make the file"),
        (OperationalError("cannot execute UPDATE in a read-only transaction"), "read-only"),
        (OperationalError("database or disk is full"), "free some space"),
        (OperationalError("database is locked"), "locked by another program"),
        (OperationalError("no such table: accounts_user"), "claw prepare"),
        (ProgrammingError('relation "accounts_user" does not exist'), "claw prepare"),
        (OperationalError('FATAL:  password authentication failed for user "claw"'), "rejected the user or password"),
        (OperationalError('FATAL:  database "claw" does not exist'), "createdb"),
        (psycopg.OperationalError("connection failed: connection refused"), "is PostgreSQL running there"),
        (psycopg.OperationalError("couldn't get a connection after 10.00 sec"), "is PostgreSQL running there"),
        (PermissionError(errno.EACCES, "Permission denied", "/srv/claw"), "no permission to write /srv/claw"),
        (OSError(errno.ENOSPC, "No space left on device"), "free some space"),
    ],
)
def test_environment_errors_include_a_remedy(error: Exception, message: str) -> None:
    assert message in (errors.explain_error(error) or "")


@pytest.mark.parametrize(
    "error", [KeyError("x"), IntegrityError("UNIQUE constraint failed"), FileNotFoundError(errno.ENOENT, "gone")]
)
def test_unexpected_exceptions_are_not_explained(error: Exception) -> None:
    assert errors.explain_error(error) is None
