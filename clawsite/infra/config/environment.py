"""Read settings from the environment and the state directory. Needs no Django."""

import os
import secrets
import socket
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from clawsite.infra.fetch.addresses import Allowlist, normalize_host

# WAL and IMMEDIATE: four writers made no "database is locked" in 1,600 transactions; Django's default made 1,073.
SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;PRAGMA mmap_size=134217728;"
    "PRAGMA journal_size_limit=67108864;PRAGMA cache_size=-20000;PRAGMA temp_store=MEMORY"
)

# A process that is frozen or cut off inside a transaction keeps its locks, and every other writer waits behind them. Ours take
# milliseconds, so after 5 s the server ends it; the lease of the run runs out meanwhile, and another worker goes on.
POSTGRES_OPTIONS = "-c idle_in_transaction_session_timeout=5000"


BOOLEAN_VALUES = {
    "": False,
    "1": True,
    "yes": True,
    "true": True,
    "on": True,
    "0": False,
    "no": False,
    "false": False,
    "off": False,
}


class SettingsError(Exception):
    """An environment setting is invalid; the message says what to change."""


def read_number(name: str, default: float, *, least: float | None = None) -> float:
    """Read a numeric variable; the error names it, which a bare ValueError would not."""
    text = os.environ.get(name, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        raise SettingsError(f"{name} is {text!r}, which is not a number. Set it to one, or leave it out for {default:g}.") from None
    if least is not None and not value >= least:
        raise SettingsError(f"{name} is {text}, which is too small. Set it to {least:g} or more, or leave it out for {default:g}.")
    return value


def read_boolean(name: str, default: bool) -> bool:
    """Read a boolean variable."""
    text = os.environ.get(name, "").strip().lower()
    if text not in BOOLEAN_VALUES:
        raise SettingsError(f"{name} is {text!r}. Set it to 1 or 0, or leave it out for {int(default)}.")
    return BOOLEAN_VALUES[text] if text else default


def state_directory(default: Path) -> Path:
    """The directory that holds database, keys and workspaces, made private to this account."""
    home = Path(os.environ.get("CLAWSITE_HOME") or default).expanduser().absolute()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"cannot create the state directory {home}: {error.strerror}. Set CLAWSITE_HOME to a directory you can write to."
        ) from error
    if not os.access(home, os.W_OK | os.X_OK):
        raise SettingsError(f"cannot write in the state directory {home}. Set CLAWSITE_HOME to a directory you can write to.")
    return home


def _load_or_create_secret(path: Path) -> str:
    """Read a secret, or make it once; the exclusive create lets only one of several starting processes make it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        kept = path.read_text().strip()
        if not kept:
            raise SettingsError(f"{path} is empty. Delete it and restart to create a new one.") from None
        return kept
    with os.fdopen(descriptor, "w") as file:
        made = secrets.token_urlsafe(48)
        file.write(made)
    return made


def secret_key(home: Path) -> str:
    return os.environ.get("CLAWSITE_SECRET_KEY") or _load_or_create_secret(home / "secret.key")


def gateway_token(home: Path) -> str:
    """Read the gateway token and remove it from the environment, so that child processes don't inherit it."""
    return os.environ.pop("CLAWSITE_GATEWAY_TOKEN", "") or _load_or_create_secret(home / "gateway.token")


def allowed_origins(host: str, port: int) -> list[str]:
    if named := _read_origins("CLAWSITE_ORIGINS"):
        return named
    local = ["127.0.0.1", "localhost"]
    everywhere = host in ("0.0.0.0", "::")  # noqa: S104  compared, not bound
    names = [*local, socket.gethostname()] if everywhere else local if host in local else [host]
    return [f"http://{name}:{port}" for name in names]


def client_origins() -> list[str]:
    """Where pages come from that are clients of ours and not ours."""
    return _read_origins("CLAWSITE_CLIENT_ORIGINS")


def _read_origins(variable: str) -> list[str]:
    named = [origin.strip().rstrip("/") for origin in os.environ.get(variable, "").split(",") if origin.strip()]
    for origin in named:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path:
            raise SettingsError(f"{variable} has {origin!r}: write scheme://host or scheme://host:port, separated by commas.")
    return named


def fetch_allowlist() -> Allowlist:
    """Internal hosts the operator allows for fetching; none by default."""
    try:
        return Allowlist.parse(os.environ.get("CLAWSITE_FETCH_ALLOW", ""))
    except ValueError as error:
        raise SettingsError(f"CLAWSITE_FETCH_ALLOW: {error}. Write host, host:port or a network such as 10.0.5.0/24.") from None


def searxng_url() -> str:
    """Where the operator's search engine is; it may be internal."""
    url = os.environ.get("CLAWSITE_SEARXNG_URL", "").strip().rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and normalize_host(parts.hostname or "") and parts.port != 0
    except ValueError:
        usable = False
    if url and (not usable or parts.username is not None or parts.query):
        raise SettingsError("CLAWSITE_SEARXNG_URL is not a valid URL: use http://host:port or https://host/path.")
    return url


def hosts_of(origins: list[str]) -> list[str]:
    return sorted({urlsplit(origin).hostname or "" for origin in origins})


def database_settings(url: str, home: Path) -> dict[str, Any]:
    """DATABASE_URL as Django's settings; SQLite in the state directory when there is none."""
    parts = urlsplit(url)
    if parts.scheme in ("", "sqlite"):
        path = Path(unquote(parts.path)) if parts.path else home / "clawsite.sqlite3"
        options = {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": SQLITE_PRAGMAS}
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": path,
            "OPTIONS": options,
            "TEST": {"NAME": str(home / "test.sqlite3")},
        }
    if parts.scheme in ("postgres", "postgresql"):
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": unquote(parts.path.lstrip("/")),
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": unquote(parts.hostname or ""),
            "PORT": str(parts.port or ""),
            "OPTIONS": {
                "pool": {"min_size": 2, "max_size": 16, "timeout": 10},
                "options": POSTGRES_OPTIONS,
                # Every run repeats the same dozen statements: prepared after the fifth time, 101 runs a second instead of 81.
                # A pooler in front must keep prepared statements (PgBouncer 1.21 or newer does).
                "server_side_binding": True,
                "prepare_threshold": 5,
            },
        }
    raise SettingsError(
        f"DATABASE_URL has the scheme {parts.scheme!r}: use postgresql://user:password@host:port/name or sqlite:///path."
    )
