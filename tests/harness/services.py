"""Start PostgreSQL and Redis on loopback in a temporary directory; they are stopped at exit.

PostgreSQL can't run as root, so root (CI) starts it as the account `postgres`.
"""

import atexit
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path


class NotInstalled(RuntimeError):
    """The message says what to install."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def find_program(name: str, *places: str) -> str | None:
    """Find a program at the newest of these paths (Debian, Homebrew), or on PATH."""
    found = shutil.which(name)
    candidates = [str(path) for place in places for path in sorted(Path("/").glob(place.lstrip("/")), reverse=True)]
    real = [path for path in candidates if os.access(path, os.X_OK)]
    return real[0] if real else found


def _wait_for(port: int, process: "subprocess.Popen[bytes]", name: str) -> None:
    for _ in range(300):
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with {process.returncode} before it listened")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"{name} did not listen within 15 s")


def _stop(process: "subprocess.Popen[bytes]", directory: str) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
    shutil.rmtree(directory, ignore_errors=True)


def start_postgres() -> str:
    """Start an empty server. Returns its DATABASE_URL."""
    initdb = find_program("initdb", "/usr/lib/postgresql/*/bin/initdb", "/opt/homebrew/opt/postgresql*/bin/initdb")
    server = find_program("postgres", "/usr/lib/postgresql/*/bin/postgres", "/opt/homebrew/opt/postgresql*/bin/postgres")
    if not initdb or not server:
        raise NotInstalled("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    directory = tempfile.mkdtemp(prefix="clawsite-pg-")
    account: dict[str, str] = {}
    if os.getuid() == 0:
        shutil.chown(directory, "postgres")
        account = {"user": "postgres", "group": "postgres"}
    data, port = f"{directory}/data", free_port()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": directory}
    subprocess.run([initdb, "-D", data, "-U", "claw", "--auth=trust", "-E", "UTF8", "--no-sync"], check=True, **quiet, **account)
    # fsync off: the rows need not survive a machine crash, and kill -9 of Clawsite's processes doesn't affect the server.
    options = [
        "-c",
        "fsync=off",
        "-c",
        "max_connections=200",
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        f"unix_socket_directories={directory}",
    ]
    process = subprocess.Popen([server, "-D", data, "-p", str(port), *options], **quiet, **account)
    atexit.register(_stop, process, directory)
    _wait_for(port, process, "PostgreSQL")
    return f"postgresql://claw@127.0.0.1:{port}/postgres"


def start_redis() -> str:
    """Start an empty server. Returns its REDIS_URL."""
    server = find_program("redis-server")
    if not server:
        raise NotInstalled("Redis is not installed (Debian: apt-get install redis-server)")
    directory, port = tempfile.mkdtemp(prefix="clawsite-redis-"), free_port()
    process = subprocess.Popen(
        [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", directory],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    atexit.register(_stop, process, directory)
    _wait_for(port, process, "Redis")
    return f"redis://127.0.0.1:{port}/0"
