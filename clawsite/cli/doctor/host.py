"""The checks of `claw doctor` for the host and the settings; `database.py` has those for stored data.

Each check looks at one thing, changes nothing and returns one result.
"""

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
from clawsite.cli.doctor.database import DATABASE_CHECKS
from clawsite.cli.doctor.finding import CheckResult
from clawsite.cli.serving import readiness
from clawsite.client import Connection, Endpoint, GatewayError, Unreachable
from clawsite.infra.config import environment

MIN_PYTHON = (3, 11)
MIN_SQLITE = (3, 35)  # UPDATE … RETURNING
NETWORK_FILESYSTEMS = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "afs", "glusterfs", "ceph")
GATEWAY_SECONDS = 5.0
LOW_DISK_BYTES, FULL_DISK_BYTES = 1 << 30, 100 << 20


def run_checks(settings: ModuleType) -> list[CheckResult]:
    """Run all checks in order; those that need the database only if it works."""
    findings = [check(settings) for check in HOST_CHECKS]
    database = check_database(settings)
    findings.append(database)
    if database.level != "fail":
        findings += [check(settings) for check in DATABASE_CHECKS]
    return findings


def check_python(_settings: ModuleType) -> CheckResult:
    version = platform.python_version()
    if sys.version_info < MIN_PYTHON:
        return CheckResult("python", "fail", version, "Clawsite needs Python 3.11 or newer.")
    return CheckResult("python", "ok", version)


def check_home(settings: ModuleType) -> CheckResult:
    home: Path = settings.HOME
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & 0o077:
        return CheckResult("home", "warn", f"{home} can be read by other accounts ({mode:o})", f"chmod 700 {home}")
    return CheckResult("home", "ok", f"{home}, private to this account")


def check_secrets(settings: ModuleType) -> CheckResult:
    files = [settings.HOME / name for name in ("secret.key", "gateway.token")]
    loose = [file for file in files if file.exists() and stat.S_IMODE(file.stat().st_mode) & 0o077]
    if loose:
        names = " ".join(str(file) for file in loose)
        return CheckResult(
            "secrets",
            "fail",
            f"other accounts can read {names}",
            f"chmod 600 {names}; then delete them so that new ones are created",
        )
    return CheckResult("secrets", "ok", "key files are private")


def check_account(_settings: ModuleType) -> CheckResult:
    if os.geteuid() == 0:
        return CheckResult("account", "warn", "running as root: a bug could damage the whole system", "Use a dedicated account.")
    return CheckResult("account", "ok", "not root")


def check_debug(settings: ModuleType) -> CheckResult:
    if settings.DEBUG:
        return CheckResult(
            "debug", "warn", "CLAWSITE_DEBUG=1 shows internals to everyone who can open a page", "Unset it in production."
        )
    return CheckResult("debug", "ok", "off")


def check_origins(settings: ModuleType) -> CheckResult:
    """Check the origins in this shell's settings. A different port shows that the server uses other settings."""
    origins = settings.ALLOWED_ORIGINS
    text = ", ".join(origins)
    listening = urlsplit(address.read_address(settings.HOME) or "").port
    if listening and environment.allowed_origins(settings.HOST, listening) != origins:
        todo = f"Run this with the server's environment variables, such as CLAWSITE_PORT={listening}, to check its origins."
        return CheckResult("origins", "warn", f"{text}: from this shell; the server listens on port {listening}", todo)
    open_to_others = settings.HOST not in ("127.0.0.1", "::1", "localhost")
    plain = [origin for origin in origins if origin.startswith("http://") and not _is_local(origin)]
    if len({origin.split(":")[0] for origin in origins}) > 1:
        return CheckResult(
            "origins", "warn", f"{text}: http and https mixed, so cookies are not marked Secure", "List https origins only."
        )
    if plain or (open_to_others and not settings.BEHIND_TLS):
        todo = "Put a TLS proxy in front and set CLAWSITE_ORIGINS=https://your.host."
        return CheckResult("origins", "warn", f"{text}: passwords and cookies cross the network unencrypted", todo)
    return CheckResult("origins", "ok", text)


def _is_local(origin: str) -> bool:
    return urlsplit(origin).hostname in ("127.0.0.1", "localhost", "::1")


def check_proxies(settings: ModuleType) -> CheckResult:
    if settings.BEHIND_TLS and not settings.TRUSTED_PROXIES:
        todo = "Set CLAWSITE_TRUSTED_PROXIES to the number of proxies (usually 1), so that sign-in limits count clients."
        return CheckResult("proxy", "warn", "TLS origins, but no proxy is trusted", todo)
    return CheckResult("proxy", "ok", f"{settings.TRUSTED_PROXIES} trusted" if settings.TRUSTED_PROXIES else "none")


def check_disk(settings: ModuleType) -> CheckResult:
    free = shutil.disk_usage(settings.HOME).free
    text = f"{free / (1 << 30):.1f} GB free at {settings.HOME}"
    if free < FULL_DISK_BYTES:
        return CheckResult("disk", "fail", text, "Free some space: the gateway rejects messages when the disk is full.")
    return CheckResult("disk", "warn" if free < LOW_DISK_BYTES else "ok", text, "Free some space." if free < LOW_DISK_BYTES else "")


def check_static(settings: ModuleType) -> CheckResult:
    if readiness.static_is_current(settings):
        return CheckResult("static files", "ok", "collected")
    return CheckResult(
        "static files",
        "warn",
        "not collected, or older than their sources",
        "`claw serve` does it at start, or run `claw prepare`.",
    )


def check_server(settings: ModuleType) -> CheckResult:
    if "daphne" in settings.INSTALLED_APPS:
        text = (
            "`runserver` uses daphne, which buffers without limit for a client that does not read: slow-consumer limits do not hold"
        )
        return CheckResult(
            "server", "warn", text, "Use `claw serve` or `claw web`, which run uvicorn, for anything but development."
        )
    return CheckResult("server", "ok", "uvicorn (`claw serve`, `claw web`); under daphne the slow-consumer limits would not hold")


def check_gateway(settings: ModuleType) -> CheckResult:
    """Try the address that client commands would use."""
    url = endpoint.find_default_url()
    try:
        asyncio.run(_try_connect(Endpoint(url=endpoint.to_socket_url(url), token=settings.GATEWAY_TOKEN)))
    except (Unreachable, TimeoutError):
        published = address.read_address(settings.HOME)
        if published and published != url:
            todo = (
                f"The gateway of this state directory listens at {published}: unset CLAWSITE_HOST and CLAWSITE_PORT to talk to it."
            )
        else:
            todo = "Start it with `claw serve`. If it runs elsewhere, set CLAWSITE_HOME to its state directory, or use --url."
        return CheckResult("gateway", "warn", f"no response from {url}", todo)
    except GatewayError as error:
        todo = "Was it started with another CLAWSITE_HOME or CLAWSITE_GATEWAY_TOKEN?" if error.is_about_auth else "Try again."
        return CheckResult("gateway", "warn", f"{url} rejects this account: {error}", todo)
    except CommandFailed as wrong:
        return CheckResult(
            "gateway", "warn", str(wrong), f"Correct CLAWSITE_HOST, or delete {settings.HOME / address.ADDRESS_FILE}."
        )
    return CheckResult("gateway", "ok", f"responds at {url}")


async def _try_connect(gateway: Endpoint) -> None:
    async with asyncio.timeout(GATEWAY_SECONDS):
        connection = await Connection.open(gateway)
        await connection.close()


def check_periodic_tasks(settings: ModuleType) -> CheckResult:
    """Check the tasks of the processes on this host, which report them with their metrics every few seconds."""
    from clawsite.infra.periodic import read_task_states

    states = read_task_states(settings.HOME)
    if problems := [f"{state.process}: “{state.task}” {state.problem}" for state in states if state.problem]:
        return CheckResult("tasks", "warn", "; ".join(problems), "See the log of the process for the cause, or restart it.")
    processes = len({state.process for state in states})
    return CheckResult("tasks", "ok", f"{len(states)} periodic tasks in {processes} processes on this host")


def check_redis(settings: ModuleType) -> CheckResult:
    if not settings.REDIS_URL:
        postgres = "postgresql" in settings.DATABASES["default"]["ENGINE"]
        text = "not configured: processes on this host communicate through sockets in the state directory"
        return CheckResult("redis", "ok", text, "Set REDIS_URL before starting processes on a second host." if postgres else "")
    import redis

    try:
        redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=3, socket_timeout=3).ping()
    except (redis.RedisError, OSError, ValueError) as error:
        return CheckResult(
            "redis", "fail", f"Redis at REDIS_URL does not respond: {error}", "Start Redis, correct REDIS_URL, or unset it."
        )
    return CheckResult("redis", "ok", "answers")


def check_sqlite(settings: ModuleType) -> CheckResult:
    database = settings.DATABASES["default"]
    if not database["ENGINE"].endswith("sqlite3"):
        return CheckResult("sqlite", "ok", "not used")
    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        return CheckResult(
            "sqlite", "fail", f"SQLite {version} is too old", "Use a Python with SQLite 3.35 or newer, or PostgreSQL."
        )
    kind = _filesystem(Path(database["NAME"]).parent)
    if kind.startswith(NETWORK_FILESYSTEMS):
        todo = "Set CLAWSITE_HOME to a local disk, or use PostgreSQL."
        return CheckResult("sqlite", "fail", f"the database is on a network filesystem ({kind}), where SQLite loses data", todo)
    return CheckResult("sqlite", "ok", f"SQLite {version} on {kind or 'a local disk'}")


def _filesystem(path: Path) -> str:
    """Return the filesystem type of a path; empty if unknown."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return ""
    best = max((mount for mount in mounts if path.is_relative_to(mount[1])), key=lambda mount: len(mount[1]), default=None)
    return best[2] if best else ""


def check_database(settings: ModuleType) -> CheckResult:
    """Check that the database is reachable, migrated and writable."""
    load_django(pool=False)
    from django.db import DatabaseError, connection, transaction
    from django.db.migrations.executor import MigrationExecutor

    name = f"{connection.vendor} {connection.settings_dict['NAME']}"
    try:
        connection.ensure_connection()
        executor = MigrationExecutor(connection)
        if plan := executor.migration_plan(executor.loader.graph.leaf_nodes()):
            text = f"{name}: {len(plan)} migrations are not applied"
            return CheckResult("database", "fail", text, "`claw serve` applies them at start, or run `claw prepare`.")
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("UPDATE django_migrations SET name = name WHERE id = (SELECT MIN(id) FROM django_migrations)")
            transaction.set_rollback(True)
        mode = _journal_mode(connection)
    except DatabaseError as error:
        return CheckResult("database", "fail", f"{name}: {error}".strip(), errors.explain_error(error) or "See docs/deployment.md.")
    if mode and mode != "wal":
        return CheckResult(
            "database",
            "warn",
            f"{name}: journal mode is {mode}, readers wait for writers",
            "Stop other programs that use the file.",
        )
    return CheckResult("database", "ok", f"{name}: migrated and writable" + (", WAL" if mode else ""))


def _journal_mode(connection: Any) -> str:
    if connection.vendor != "sqlite":
        return ""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA journal_mode")
        return str(cursor.fetchone()[0]).lower()


def check_sandbox(_settings: ModuleType) -> CheckResult:
    """Check how agents' commands are sandboxed, by testing the sandbox."""
    load_django(pool=False)
    from tools_app.exec.sandbox.available import SandboxLevel, probe_once

    sandbox = probe_once()
    weak = [str(shortfall) for shortfall in sandbox.weaknesses]
    lower = [str(shortfall) for shortfall in sandbox.why_not_higher]
    if sandbox.level == SandboxLevel.NONE:
        todo = "Install bubblewrap and allow user namespaces; until then every command needs approval."
        return CheckResult("sandbox", "warn", f"none: {'; '.join(lower + weak)}", todo)
    if sandbox.level < SandboxLevel.BWRAP or weak:
        todo = "Install bubblewrap and allow user namespaces." if lower else "Use a dedicated account for the server."
        return CheckResult("sandbox", "warn", f"{sandbox.level.label}, tested and effective; but: {'; '.join(lower + weak)}", todo)
    return CheckResult("sandbox", "ok", f"{sandbox.level.label}: tested, every attempt to escape failed")


def check_protected_paths(settings: ModuleType) -> CheckResult:
    """Check that no server files are in directories that commands can read."""
    load_django(pool=False)
    from clawsite.infra.protected_paths import secret_paths
    from tools_app.exec.sandbox.paths import find_innermost, list_visible_system

    seen = [str(path) for path in secret_paths() if find_innermost(path, list_visible_system(network=True))]
    if seen:
        todo = "Move it elsewhere. Until then, commands run only with bubblewrap, which can hide directories, or not at all."
        return CheckResult("places", "warn", f"commands can read {', '.join(seen)}", todo)
    return CheckResult("places", "ok", f"commands can't read {settings.HOME} and other server files")


HOST_CHECKS: list[Callable[[ModuleType], CheckResult]] = [
    check_python, check_account, check_home, check_secrets, check_disk, check_debug, check_origins, check_proxies, check_static,
    check_server, check_gateway, check_periodic_tasks, check_redis, check_sqlite, check_sandbox, check_protected_paths,
]  # fmt: skip
