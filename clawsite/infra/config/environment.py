"""Read settings from the environment and the state directory. Needs no Django."""

import os
import secrets
import socket
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from clawsite.infra.fetch.addresses import Allowlist, normalize_host

# With WAL and IMMEDIATE, four writers got no "database is locked" errors in 1,600 transactions; with Django's defaults, 1,073.
SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;PRAGMA mmap_size=134217728;"
    "PRAGMA journal_size_limit=67108864;PRAGMA cache_size=-20000;PRAGMA temp_store=MEMORY"
)

# A process that hangs or loses its network inside a transaction keeps its locks, and all other writers wait. Transactions take
# milliseconds, so PostgreSQL ends an idle one after 5 s. The lease of its run expires too, and another worker continues it.
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


def read_number(name: str, default: float, *, minimum: float | None = None) -> float:
    """Read a numeric variable. Raise SettingsError, which names the variable, for invalid values."""
    text = os.environ.get(name, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        raise SettingsError(f"{name} is {text!r}, which is not a number. Set a number, or unset it for {default:g}.") from None
    if minimum is not None and not value >= minimum:
        raise SettingsError(f"{name} is {text}, which is too small. Set it to {minimum:g} or more, or unset it for {default:g}.")
    return value


def read_boolean(name: str, default: bool) -> bool:
    """Read a boolean variable."""
    text = os.environ.get(name, "").strip().lower()
    if text not in BOOLEAN_VALUES:
        raise SettingsError(f"{name} is {text!r}. Set it to 1 or 0, or unset it for {int(default)}.")
    return BOOLEAN_VALUES[text] if text else default


def state_directory(default: Path) -> Path:
    """Return the directory for database, keys and workspaces. Create it, private to this account, if it doesn't exist."""
    home = Path(os.environ.get("CLAWSITE_HOME") or default).expanduser().absolute()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"cannot create the state directory {home}: {error.strerror}. Set CLAWSITE_HOME to a directory you can write to."
        ) from error
    if not os.access(home, os.W_OK | os.X_OK):
        raise SettingsError(f"cannot write to the state directory {home}. Set CLAWSITE_HOME to a directory you can write to.")
    return home


def _load_or_create_secret(path: Path) -> str:
    """Read a secret, or create it. Exclusive creation ensures that only one of several starting processes does."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        existing = path.read_text().strip()
        if not existing:
            raise SettingsError(f"{path} is empty. Delete it and restart to create a new one.") from None
        return existing
    with os.fdopen(descriptor, "w") as file:
        secret = secrets.token_urlsafe(48)
        file.write(secret)
    return secret


def secret_key(home: Path) -> str:
    return os.environ.get("CLAWSITE_SECRET_KEY") or _load_or_create_secret(home / "secret.key")


def gateway_token(home: Path) -> str:
    """Read the gateway token and remove it from the environment, so that child processes don't inherit it."""
    return os.environ.pop("CLAWSITE_GATEWAY_TOKEN", "") or _load_or_create_secret(home / "gateway.token")


def allowed_origins(host: str, port: int) -> list[str]:
    if configured := _read_origins("CLAWSITE_ORIGINS"):
        return configured
    local = ["127.0.0.1", "localhost"]
    all_interfaces = host in ("0.0.0.0", "::")  # noqa: S104  compared, not bound
    names = [*local, socket.gethostname()] if all_interfaces else local if host in local else [host]
    return [f"http://{name}:{port}" for name in names]


def client_origins() -> list[str]:
    """Return the origins of web clients hosted elsewhere."""
    return _read_origins("CLAWSITE_CLIENT_ORIGINS")


def _read_origins(variable: str) -> list[str]:
    origins = [origin.strip().rstrip("/") for origin in os.environ.get(variable, "").split(",") if origin.strip()]
    for origin in origins:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path:
            raise SettingsError(f"{variable} contains {origin!r}: use scheme://host or scheme://host:port, separated by commas.")
    return origins


def fetch_allowlist() -> Allowlist:
    """Return the internal hosts that may be fetched; none by default."""
    try:
        return Allowlist.parse(os.environ.get("CLAWSITE_FETCH_ALLOW", ""))
    except ValueError as error:
        raise SettingsError(f"CLAWSITE_FETCH_ALLOW: {error}. Use host, host:port or a network such as 10.0.5.0/24.") from None


def searxng_url() -> str:
    """Return the URL of the SearXNG search engine; it may be internal."""
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
    """Convert DATABASE_URL to Django's settings. Without a URL, use SQLite in the state directory."""
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
                # Every run repeats the same dozen statements: preparing them after the fifth use gives 101 runs per second
                # instead of 81. A connection pooler must support prepared statements (PgBouncer 1.21 or newer does).
                "server_side_binding": True,
                "prepare_threshold": 5,
            },
        }
    raise SettingsError(
        f"unsupported DATABASE_URL scheme {parts.scheme!r}: use postgresql://user:password@host:port/name or sqlite:///path."
    )
