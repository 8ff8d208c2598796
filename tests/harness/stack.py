"""A running Clawsite on the test database: fake model, web processes and workers, each a real process.

The `database` fixture does not delete rows while a stack is running.
"""

import atexit
import itertools
import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from clawsite.client import Client, Endpoint
from tests.harness.processes import END_WITH_PARENT, TIMEOUT, Process, has_registered, listens, responds
from tests.harness.services import find_program, free_port

CLAW = ("-m", "clawsite.cli.main")
# Shorter timeouts: a lease expires after half a second instead of twenty.
TIMES = {
    "CLAWSITE_LEASE_SECONDS": "0.5",
    "CLAWSITE_HEARTBEAT_SECONDS": "0.1",
    "CLAWSITE_SWEEP_SECONDS": "0.2",
    "CLAWSITE_POLL_SECONDS": "0.2",
    "CLAWSITE_DRAIN_SECONDS": "1",
}


class Stack:
    """`with Stack(webs=2, workers=2) as stack:`; remaining processes are killed at the end.

    `launcher` replaces the `claw` program; `own_redis` starts a separate Redis that the test may restart.
    """

    running: list["Stack"] = []
    _numbers = itertools.count(1)

    def __init__(
        self,
        *,
        webs: int = 1,
        workers: int = 1,
        env: Mapping[str, str] | None = None,
        launcher: Sequence[str] = CLAW,
        own_redis: bool = False,
        ports: Sequence[int] = (),
    ) -> None:
        from django.conf import settings

        self.home = Path(settings.HOME) / f"stack-{next(self._numbers)}"
        self.logs = self.home / "logs"
        self.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.token: str = settings.GATEWAY_TOKEN
        self._ports = list(ports) or [free_port() for _ in range(webs)]
        model_port, redis_port = free_port(), free_port() if own_redis and settings.REDIS_URL else 0
        self.llm = f"http://127.0.0.1:{model_port}"
        self.env = self._environment(settings, redis_port, env or {})
        self.redis = self._process("redis", _redis(redis_port, self.home), listens(redis_port)) if redis_port else None
        model = [*END_WITH_PARENT, sys.executable, "-m", "tests.harness.fake_model", "--port", str(model_port)]
        self.model = self._process("model", model, responds(f"{self.llm}/v1/models"))
        self.webs = [
            self._process(f"web-{n}", [*launcher, "web", "--port", str(port)], responds(f"http://127.0.0.1:{port}/healthz"))
            for n, port in enumerate(self._ports)
        ]
        self.workers = [self._process(f"worker-{n}", [*launcher, "worker"], has_registered) for n in range(workers)]

    def _environment(self, settings: Any, redis_port: int, more: Mapping[str, str]) -> dict[str, str]:
        origins = [f"http://{host}:{port}" for port in self._ports for host in ("127.0.0.1", "localhost")]
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("CLAWSITE_", "OPENAI_", "ANTHROPIC_"))
        }
        return inherited | {
            "CLAWSITE_HOME": str(self.home),
            "CLAWSITE_SECRET_KEY": settings.SECRET_KEY,
            "CLAWSITE_GATEWAY_TOKEN": self.token,
            "CLAWSITE_ORIGINS": ",".join(origins),
            "CLAWSITE_MODEL": "openai/fake-1",
            "OPENAI_API_KEY": "x",
            "OPENAI_BASE_URL": f"{self.llm}/v1",
            "DATABASE_URL": database_url(settings.DATABASES["default"]),
            "REDIS_URL": f"redis://127.0.0.1:{redis_port}/0" if redis_port else settings.REDIS_URL,
            "PYTHONUNBUFFERED": "1",
            **TIMES,
            **more,
        }

    def _process(self, name: str, arguments: Sequence[str], ready: Callable[[Process], bool]) -> Process:
        return Process(name, arguments, env=self.env, log=self.logs / f"{name}.log", ready=ready)

    @property
    def processes(self) -> list[Process]:
        return [*([self.redis] if self.redis else []), self.model, *self.webs, *self.workers]

    def __enter__(self) -> "Stack":
        Stack.running.append(self)
        atexit.register(self.close)
        try:
            for process in self.processes:
                process.spawn()
            for process in self.processes:
                process.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all process groups. Can be called more than once."""
        for process in self.processes:
            process.kill()
        if self in Stack.running:
            Stack.running.remove(self)
        atexit.unregister(self.close)
        shutil.rmtree(self.home, ignore_errors=True)

    def freeze(self, process: Process) -> None:
        """Suspend a process between two transactions, so that it doesn't hold SQLite's lock."""
        process.freeze()
        while not _is_writable():
            process.thaw()
            process.freeze()

    def report(self) -> list[tuple[str, str]]:
        return [process.report() for process in self.processes]

    @property
    def url(self) -> str:
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self._ports]

    def ws_url(self, n: int = 0) -> str:
        return f"ws://127.0.0.1:{self._ports[n]}/ws"

    def client(self, user: Any = None, n: int = 0, **fields: Any) -> Client:
        """`async with stack.client(user) as client:`. Without a user it uses the gateway token."""
        return Client(Endpoint(url=self.ws_url(n), token=self.api_token(user) if user is not None else self.token, **fields))

    def api_token(self, user: Any) -> str:
        from tests.harness.users import create_token

        return create_token(user)

    def sign_in(self, page: Any, user: Any) -> None:
        """Sign in a Playwright page by setting its session cookie."""
        from django.conf import settings

        from tests.harness.users import session_cookie

        cookie = {"name": settings.SESSION_COOKIE_NAME, "value": session_cookie(user), "path": "/", "httpOnly": True}
        page.context.add_cookies([{**cookie, "domain": host} for host in ("127.0.0.1", "localhost")])

    def model_requests(self, tag: str = "") -> list[dict[str, Any]]:
        """Return the requests to the fake model so far, from its log."""
        with urlopen(f"{self.llm}/_log" + (f"?tag={quote(tag)}" if tag else ""), timeout=TIMEOUT) as response:
            records: list[dict[str, Any]] = json.load(response)
            return records


def database_url(database: Mapping[str, Any]) -> str:
    """Return DATABASE_URL for the test database."""
    if database["ENGINE"].endswith("sqlite3"):
        return f"sqlite://{quote(str(Path(database['NAME']).absolute()))}"
    who = quote(database["USER"]) + (f":{quote(database['PASSWORD'])}" if database["PASSWORD"] else "")
    return f"postgresql://{who}@{database['HOST']}:{database['PORT']}/{quote(str(database['NAME']))}"


def _is_writable() -> bool:
    from django.conf import settings

    database = settings.DATABASES["default"]
    if not database["ENGINE"].endswith("sqlite3"):
        return True
    connection = sqlite3.connect(database["NAME"], timeout=0.2, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:  # locked
        return False
    finally:
        connection.close()
    return True


def _redis(port: int, home: Path) -> list[str]:
    server = find_program("redis-server")
    assert server, "Redis is not installed (Debian: apt-get install redis-server)"
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(home)]
    return [*END_WITH_PARENT, server, *options]
