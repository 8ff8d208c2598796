"""The checks of `claw doctor`: the host and the settings here, what is stored in checks_stored. Each looks at one thing, changes
nothing, and returns one finding."""

import asyncio
import os
import platform
import shutil
import sqlite3
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from clawsite.cli import address, endpoint, errors
from clawsite.cli.command import CommandFailed, load_django
from clawsite.cli.doctor.database import WITH_DATABASE
from clawsite.cli.doctor.finding import Finding
from clawsite.cli.serving import readiness
from clawsite.client.client import Connection, Endpoint, GatewayError, Unreachable
from clawsite.infra.config import environment

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 35)  # UPDATE … RETURNING
NETWORK_FILESYSTEMS = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "afs", "glusterfs", "ceph")
GATEWAY_SECONDS = 5.0
LOW_DISK, NO_DISK = 1 << 30, 100 << 20


def examine(settings: ModuleType) -> list[Finding]:
    """All checks in order; those that need the database only when it answers."""
    findings = [check(settings) for check in BASIC]
    database = check_database(settings)
    findings.append(database)
    if database.level != "fail":
        findings += [check(settings) for check in WITH_DATABASE]
    return findings


def check_python(_settings: ModuleType) -> Finding:
    version = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        return Finding("python", "fail", version, "Clawsite needs Python 3.11 or newer.")
    return Finding("python", "ok", version)


def check_home(settings: ModuleType) -> Finding:
    home: Path = settings.HOME
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & 0o077:
        return Finding("home", "warn", f"{home} can be read by other accounts ({mode:o})", f"chmod 700 {home}")
    return Finding("home", "ok", f"{home}, private to this account")


def check_secrets(settings: ModuleType) -> Finding:
    files = [settings.HOME / name for name in ("secret.key", "gateway.token")]
    loose = [file for file in files if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077]
    if loose:
        names = " ".join(str(file) for file in loose)
        return Finding(
            "secrets", "fail", f"other accounts can read {names}", f"chmod 600 {names}; then have new ones made by deleting them"
        )
    return Finding("secrets", "ok", "key files are private")


def check_account(_settings: ModuleType) -> Finding:
    if os.geteuid() == 0:
        return Finding("account", "warn", "running as root: a fault would have no bounds", "Use an account of its own.")
    return Finding("account", "ok", "not root")


def check_debug(settings: ModuleType) -> Finding:
    if settings.DEBUG:
        return Finding(
            "debug", "warn", "CLAWSITE_DEBUG=1 shows internals to everybody who can open a page", "Unset it in production."
        )
    return Finding("debug", "ok", "off")


def check_origins(settings: ModuleType) -> Finding:
    """Of this shell's settings. A server that was started with others has others, and its port betrays it."""
    origins = settings.ALLOWED_ORIGINS
    text = ", ".join(origins)
    listening = urlsplit(address.noted(settings.HOME) or "").port
    if listening and environment.allowed_origins(settings.HOST, listening) != origins:
        todo = f"Run this with the variables of the server, such as CLAWSITE_PORT={listening}, to check its own."
        return Finding("origins", "warn", f"{text}: of this shell; the server listens at port {listening}", todo)
    open_to_others = settings.HOST not in ("127.0.0.1", "::1", "localhost")
    plain = [origin for origin in origins if origin.startswith("http://") and not _is_local(origin)]
    if len({origin.split(":")[0] for origin in origins}) > 1:
        return Finding(
            "origins", "warn", f"{text}: http and https mixed, so cookies are not marked Secure", "Name https origins only."
        )
    if plain or (open_to_others and not settings.BEHIND_TLS):
        todo = "Put a TLS proxy in front and set CLAWSITE_ORIGINS=https://your.host."
        return Finding("origins", "warn", f"{text}: passwords and cookies cross the network unencrypted", todo)
    return Finding("origins", "ok", text)


def _is_local(origin: str) -> bool:
    return urlsplit(origin).hostname in ("127.0.0.1", "localhost", "::1")


def check_proxies(settings: ModuleType) -> Finding:
    if settings.BEHIND_TLS and not settings.TRUSTED_PROXIES:
        todo = (
            "Set CLAWSITE_TRUSTED_PROXIES to how many there are (usually 1), so that sign-in limits count clients, not the proxy."
        )
        return Finding("proxy", "warn", "TLS origins, but no proxy is trusted", todo)
    return Finding("proxy", "ok", f"{settings.TRUSTED_PROXIES} trusted" if settings.TRUSTED_PROXIES else "none")


def check_disk(settings: ModuleType) -> Finding:
    free = shutil.disk_usage(settings.HOME).free
    text = f"{free / (1 << 30):.1f} GB free at {settings.HOME}"
    if free < NO_DISK:
        return Finding("disk", "fail", text, "Free some space: the gateway refuses messages when the disk is full.")
    return Finding("disk", "warn" if free < LOW_DISK else "ok", text, "Free some space." if free < LOW_DISK else "")


def check_static(settings: ModuleType) -> Finding:
    if readiness.static_is_current(settings):
        return Finding("static files", "ok", "collected")
    return Finding(
        "static files",
        "warn",
        "not collected, or older than their sources",
        "`claw serve` does it at start, or run `claw prepare`.",
    )


def check_server(settings: ModuleType) -> Finding:
    if "daphne" in settings.INSTALLED_APPS:
        text = (
            "`runserver` uses daphne, which buffers without limit for a client that does not read: slow-consumer limits do not hold"
        )
        return Finding("server", "warn", text, "Use `claw serve` or `claw web`, which run uvicorn, for anything but development.")
    return Finding("server", "ok", "uvicorn (`claw serve`, `claw web`); under daphne the slow-consumer limits would not hold")


def check_gateway(settings: ModuleType) -> Finding:
    """Where the commands that talk to the gateway would look for it."""
    url = endpoint.default_url()
    try:
        asyncio.run(_greet(Endpoint(url=endpoint.socket_url(url), token=settings.GATEWAY_TOKEN)))
    except (Unreachable, TimeoutError):
        noted = address.noted(settings.HOME)
        if noted and noted != url:
            todo = f"The one of this state directory noted {noted}: unset CLAWSITE_HOST and CLAWSITE_PORT to talk to it."
        else:
            todo = "Start it with `claw serve`. If it runs elsewhere, set CLAWSITE_HOME to its state directory, or use --url."
        return Finding("gateway", "warn", f"nothing answers at {url}", todo)
    except GatewayError as error:
        todo = "Was it started with another CLAWSITE_HOME or CLAWSITE_GATEWAY_TOKEN?" if error.is_about_auth else "Try again."
        return Finding("gateway", "warn", f"{url} refuses this account: {error}", todo)
    except CommandFailed as wrong:
        return Finding("gateway", "warn", str(wrong), f"Correct CLAWSITE_HOST, or delete {settings.HOME / address.FILE}.")
    return Finding("gateway", "ok", f"answers at {url}")


async def _greet(gateway: Endpoint) -> None:
    async with asyncio.timeout(GATEWAY_SECONDS):
        connection = await Connection.open(gateway)
        await connection.close()


def check_redis(settings: ModuleType) -> Finding:
    if not settings.REDIS_URL:
        postgres = "postgresql" in settings.DATABASES["default"]["ENGINE"]
        text = "not configured: processes of this host meet at sockets in the state directory"
        return Finding("redis", "ok", text, "Set REDIS_URL before starting processes on a second host." if postgres else "")
    import redis

    try:
        redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=3, socket_timeout=3).ping()
    except (redis.RedisError, OSError, ValueError) as error:
        return Finding("redis", "fail", f"REDIS_URL does not answer: {error}", "Start Redis, correct REDIS_URL, or unset it.")
    return Finding("redis", "ok", "answers")


def check_sqlite(settings: ModuleType) -> Finding:
    database = settings.DATABASES["default"]
    if not database["ENGINE"].endswith("sqlite3"):
        return Finding("sqlite", "ok", "not used")
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return Finding("sqlite", "fail", f"SQLite {version} is too old", "Use a Python with SQLite 3.35 or newer, or PostgreSQL.")
    kind = _filesystem(Path(database["NAME"]).parent)
    if kind.startswith(NETWORK_FILESYSTEMS):
        todo = "Set CLAWSITE_HOME to a local disk, or use PostgreSQL."
        return Finding("sqlite", "fail", f"the database is on a network filesystem ({kind}), where SQLite loses data", todo)
    return Finding("sqlite", "ok", f"SQLite {version} on {kind or 'a local disk'}")


def _filesystem(path: Path) -> str:
    """The type of the filesystem a path is on; empty where the system does not tell."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return ""
    best = max((mount for mount in mounts if path.is_relative_to(mount[1])), key=lambda mount: len(mount[1]), default=None)
    return best[2] if best else ""


def check_database(settings: ModuleType) -> Finding:
    """Reachable, migrated, writable."""
    load_django(pool=False)
    from django.db import DatabaseError, connection, transaction
    from django.db.migrations.executor import MigrationExecutor

    name = f"{connection.vendor} {connection.settings_dict['NAME']}"
    try:
        connection.ensure_connection()
        executor = MigrationExecutor(connection)
        if plan := executor.migration_plan(executor.loader.graph.leaf_nodes()):
            text = f"{name}: {len(plan)} migrations are not applied"
            return Finding("database", "fail", text, "`claw serve` applies them at start, or run `claw prepare`.")
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("UPDATE django_migrations SET name = name WHERE id = (SELECT MIN(id) FROM django_migrations)")
            transaction.set_rollback(True)
        mode = _journal_mode(connection)
    except DatabaseError as error:
        return Finding("database", "fail", f"{name}: {error}".strip(), errors.explain(error) or "See docs/deployment.md.")
    if mode and mode != "wal":
        return Finding(
            "database",
            "warn",
            f"{name}: journal mode is {mode}, readers wait for writers",
            "Stop other programs that use the file.",
        )
    return Finding("database", "ok", f"{name}: migrated and writable" + (", WAL" if mode else ""))


def _journal_mode(connection: Any) -> str:
    if connection.vendor != "sqlite":
        return ""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        return str(cursor.fetchone()[0]).lower()


def check_sandbox(_settings: ModuleType) -> Finding:
    """How commands of agents are shut in, by trying it."""
    load_django(pool=False)
    from tools_app.exec.sandbox.available import Level, available

    found = available()
    weak = [str(shortfall) for shortfall in found.weaknesses]
    lower = [str(shortfall) for shortfall in found.why_not_higher]
    if found.level == Level.NONE:
        todo = "Install bubblewrap and allow user namespaces; until then every command asks a person."
        return Finding("sandbox", "warn", f"none: {'; '.join(lower + weak)}", todo)
    if found.level < Level.BWRAP or weak:
        todo = "Install bubblewrap and allow user namespaces." if lower else "Use an account of its own for the server."
        return Finding("sandbox", "warn", f"{found.level.word}, tried and held; but: {'; '.join(lower + weak)}", todo)
    return Finding("sandbox", "ok", f"{found.level.word}: tried, and every attempt to get out failed")


def check_places(settings: ModuleType) -> Finding:
    """Commands read the system's programs: nothing of ours should lie among them."""
    load_django(pool=False)
    from clawsite.infra.protected_paths import secret_places
    from tools_app.exec.sandbox.paths import innermost, shown_of_system

    seen = [str(place) for place in secret_places() if innermost(place, shown_of_system(network=True))]
    if seen:
        todo = "Move it out of there. Until then commands run with bubblewrap only, which can hide directories, or not at all."
        return Finding("places", "warn", f"lies where commands can look: {', '.join(seen)}", todo)
    return Finding("places", "ok", f"{settings.HOME} and what belongs to it lie where commands cannot look")


BASIC: list[Callable[[ModuleType], Finding]] = [
    check_python, check_account, check_home, check_secrets, check_disk, check_debug, check_origins, check_proxies, check_static,
    check_server, check_gateway, check_redis, check_sqlite, check_sandbox, check_places,
]  # fmt: skip
