"""Explain environment errors in one sentence that says what to do. Other errors are bugs and keep their traceback."""

import errno

from clawsite.infra.config.environment import SettingsError

# Messages of SQLite, the PostgreSQL server and psycopg; first match wins.
_DATABASE = (
    (
        ("unable to open database file",),
        "cannot open the database {name}: does its directory exist, and can this account write to it?",
    ),
    (
        ("readonly database", "read-only", "read only"),
        "the database {name} is read-only: make the file and its directory writable for this account.",
    ),
    (("disk is full", "no space left"), "the disk of the database {name} is full: free some space and start again."),
    (("file is not a database", "malformed"), "{name} is not a usable SQLite database: restore it from a backup or move it away."),
    (("locked",), "the database {name} is locked by another program: stop it and try again."),
    (("no such table", "does not exist\nline", 'relation "'), "the database {name} has not been migrated: run `claw prepare`."),
    (("password authentication failed", "no password supplied"), "the database rejected the user or password in DATABASE_URL."),
    (('database "',), "the database named in DATABASE_URL does not exist on that server: create it (createdb {name})."),
    (
        (
            "connection refused",
            "could not connect",
            "connection failed",
            "couldn't get a connection",
            "timeout",
            "translate host",
            "resolve",
        ),
        "cannot reach the database in DATABASE_URL: is PostgreSQL running there, and are host and port right?",
    ),
)


def explain_error(error: BaseException) -> str | None:
    """Return an explanation for an environment error, or None for any other error."""
    if isinstance(error, SettingsError):
        return str(error)
    module = type(error).__module__
    if module.startswith(("django.db", "sqlite3", "psycopg")):
        return _explain_database(error)
    if module.startswith("redis") and "Connection" in type(error).__name__:
        return f"cannot reach Redis in REDIS_URL: {error}. Start it, correct REDIS_URL, or unset it."
    if isinstance(error, OSError):
        return _explain_os(error)
    return None


def port_in_use_message(host: str, port: int) -> str:
    return f"{host}:{port} is in use by another program. Stop it, or choose another port: CLAWSITE_PORT={port + 1} claw serve"


def _explain_database(error: BaseException) -> str | None:
    message = str(error).lower()
    for phrases, sentence in _DATABASE:
        if any(phrase in message for phrase in phrases):
            return sentence.format(name=_database_name())
    return None


def _database_name() -> str:
    from clawsite import settings

    return str(settings.DATABASES["default"]["NAME"])


def _explain_os(error: OSError) -> str | None:
    where = f" {error.filename}" if error.filename else ""
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return f"no permission to write{where}: {error.strerror}. Set CLAWSITE_HOME to a directory you can write to."
        case errno.ENOSPC | errno.EDQUOT:
            return f"the disk is full{where}: free some space and start again."
        case errno.EADDRINUSE:
            return "the address is in use by another program: choose another CLAWSITE_PORT."
    return None
