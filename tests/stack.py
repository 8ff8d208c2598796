"""A running Clawsite on the test database: a model that answers as it is told, web processes, workers, each a real process.

`Stack` starts, kills, freezes, thaws and restarts them one by one and keeps what they log. They share the database of this
pytest run, so while a stack runs the rows of a test are not deleted behind it (see `database` in conftest.py).
"""

import asyncio
import atexit
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

from clawsite.client import Client, Endpoint
from tests.services import RedisServer, free_port

PROJECT = Path(__file__).resolve().parent.parent
PATIENCE = 60.0  # a guard against hangs, not a promise: a loaded machine starts a process in some seconds
TAIL = 6_000  # characters of a log that are shown when a test fails
CLAW = ("-m", "clawsite.cli.main")
# Ends with the tests, even if those are killed; the model itself knows nothing of parents.
MODEL = "from clawsite.infra import process; process.end_with_parent(); from tests.fake_llm import main; main()"
# Everything that waits, shortened: a lease runs out in half a second instead of twenty.
TIMES = {
    "CLAWSITE_LEASE_SECONDS": "0.5",
    "CLAWSITE_HEARTBEAT_SECONDS": "0.1",
    "CLAWSITE_SWEEP_SECONDS": "0.2",
    "CLAWSITE_POLL_SECONDS": "0.2",
    "CLAWSITE_DRAIN_SECONDS": "1",
}


class Process:
    """One process of a stack, by its handle: it may be killed and started again any number of times."""

    def __init__(self, name: str, arguments: Sequence[str], env: Mapping[str, str], log: Path, ready: Callable[["Process"], bool]) -> None:
        self.name, self.log = name, log
        self.env = dict(env)
        self._arguments, self._ready = arguments, ready
        self._popen: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._popen is not None, f"{self.name} was never started"
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def spawn(self) -> None:
        """Begin to start. From the main thread only: the kernel ends a child together with the thread that made it."""
        assert not self.alive, f"{self.name} is running"
        with self.log.open("ab") as log:
            self._popen = subprocess.Popen(
                [sys.executable, *self._arguments],
                cwd=PROJECT,
                env={**self.env, "CLAWSITE_PARENT_PID": str(os.getpid())},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def start(self) -> "Process":
        self.spawn()
        self.wait_ready()
        return self

    def is_ready(self) -> bool:
        if not self.alive:
            raise RuntimeError(f"{self.name} ended while it was awaited:\n{self.tail()}")
        return self._ready(self)

    def wait_ready(self) -> None:
        give_up = time.monotonic() + PATIENCE
        while not self.is_ready():
            if time.monotonic() > give_up:
                raise RuntimeError(f"{self.name} was not ready within {PATIENCE:g} s:\n{self.tail()}")
            time.sleep(0.02)

    async def until_ready(self) -> None:
        """The same without holding up the event loop."""
        async with asyncio.timeout(PATIENCE):
            while not self.is_ready():
                await asyncio.sleep(0.02)

    def signal(self, number: int) -> None:
        if self.alive:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone; works on a frozen one too."""
        if self._popen is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
            self._popen.wait()
            if self._popen.stdin:
                self._popen.stdin.close()

    def freeze(self) -> None:
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM: it drains and ends; -> its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        assert self._popen is not None
        try:
            return self._popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{self.name} did not end:\n{self.tail()}") from None

    def restart(self) -> "Process":
        self.kill()
        return self.start()

    def order(self, **what: Any) -> None:
        """Tell a puppet (tests/faults/puppet.py) what to do; one that is dead by now does not hear it."""
        assert self._popen is not None and self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._popen.stdin.write(json.dumps(what).encode() + b"\n")
            self._popen.stdin.flush()

    def tail(self, characters: int = TAIL) -> str:
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""


class Stack:
    """`Stack(webs=2, workers=2)`; leaving the `with` block kills whatever is left."""

    running: list["Stack"] = []
    _numbers = itertools.count(1)

    def __init__(
        self, *, webs: int = 1, workers: int = 1, env: Mapping[str, str] | None = None, launcher: Sequence[str] = CLAW, own_redis: bool = False
    ) -> None:
        from django.conf import settings

        self.home = Path(settings.HOME) / f"stack-{next(self._numbers)}"
        self.logs = self.home / "logs"
        self.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.token: str = settings.GATEWAY_TOKEN
        self._ports = [free_port() for _ in range(webs)]
        model_port = free_port()
        self.llm = f"http://127.0.0.1:{model_port}"
        self.redis = RedisServer() if own_redis and settings.REDIS_URL else None
        self.env = self._environment(settings, env or {})
        self.model = self._process("model", ["-c", MODEL, "--port", str(model_port)], lambda _: _answers(f"{self.llm}/v1/models"))
        self.webs = [
            self._process(f"web-{n}", [*launcher, "web", "--port", str(port)], lambda _, port=port: _answers(f"http://127.0.0.1:{port}/healthz"))
            for n, port in enumerate(self._ports)
        ]
        self.workers = [self._process(f"worker-{n}", [*launcher, "worker"], _has_registered) for n in range(workers)]

    def _environment(self, settings: Any, more: Mapping[str, str]) -> dict[str, str]:
        names = [f"http://{host}:{port}" for port in self._ports for host in ("127.0.0.1", "localhost")]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLAWSITE_", "OPENAI_", "ANTHROPIC_"))}
        redis = self.redis.url if self.redis else settings.REDIS_URL
        return kept | {
            "CLAWSITE_HOME": str(self.home),
            "CLAWSITE_SECRET_KEY": settings.SECRET_KEY,
            "CLAWSITE_GATEWAY_TOKEN": self.token,
            "CLAWSITE_ORIGINS": ",".join(names),
            "CLAWSITE_MODEL": "openai/fake-1",
            "OPENAI_API_KEY": "x",
            "OPENAI_BASE_URL": f"{self.llm}/v1",
            "DATABASE_URL": database_url(settings.DATABASES["default"]),
            "REDIS_URL": redis,
            "PYTHONUNBUFFERED": "1",
            **TIMES,
            **more,
        }

    def _process(self, name: str, arguments: Sequence[str], ready: Callable[[Process], bool]) -> Process:
        return Process(name, arguments, self.env, self.logs / f"{name}.log", ready)

    @property
    def processes(self) -> list[Process]:
        return [self.model, *self.webs, *self.workers]

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
        """Kill all that is left, by process group. Safe to repeat."""
        for process in self.processes:
            process.kill()
        if self.redis:
            self.redis.stop()
        if self in Stack.running:
            Stack.running.remove(self)
        atexit.unregister(self.close)
        shutil.rmtree(self.home, ignore_errors=True)

    # How to reach it

    @property
    def url(self) -> str:
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self._ports]

    def ws_url(self, n: int = 0) -> str:
        return f"ws://127.0.0.1:{self._ports[n]}/ws"

    def client(self, user: Any = None, n: int = 0, **fields: Any) -> Client:
        """`async with stack.client(user) as client:`. Without a user it is a program with the gateway token."""
        token = self.api_token(user) if user is not None else self.token
        return Client(Endpoint(url=self.ws_url(n), token=token, **fields))

    def api_token(self, user: Any) -> str:
        from clawsite.accounts.groups import scopes_of
        from clawsite.accounts.tokens import issue_token

        return issue_token(user, "test", sorted(scopes_of(user)), None)[1]

    def sign_in(self, page: Any, user: Any) -> None:
        """Give a Playwright page the cookie that signing in with a password would have given it."""
        from django.conf import settings
        from django.test import Client as Browser

        browser = Browser()
        browser.force_login(user)
        value = browser.cookies[settings.SESSION_COOKIE_NAME].value
        for host in {urlsplit(url).hostname for url in self.urls} | {"localhost"}:
            page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": value, "domain": host, "path": "/", "httpOnly": True}])

    def asked(self, tag: str = "") -> list[dict[str, Any]]:
        """What the model was asked so far, as its log tells it (tests/fake_llm.py)."""
        with urlopen(f"{self.llm}/_log" + (f"?tag={quote(tag)}" if tag else ""), timeout=PATIENCE) as answer:
            found: list[dict[str, Any]] = json.load(answer)
            return found

    def report(self) -> list[tuple[str, str]]:
        """(title, end of the log) of each process, for a test that failed."""
        return [(f"{process.name} (pid {process.pid})", process.tail()) for process in self.processes if process._popen]


def database_url(database: Mapping[str, Any]) -> str:
    """The database of this run as its processes are told; the name is the test database's."""
    if database["ENGINE"].endswith("sqlite3"):
        return f"sqlite://{quote(str(Path(database['NAME']).absolute()))}"
    who = quote(database["USER"]) + (f":{quote(database['PASSWORD'])}" if database["PASSWORD"] else "")
    return f"postgresql://{who}@{database['HOST']}:{database['PORT']}/{quote(str(database['NAME']))}"


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


def _has_registered(process: Process) -> bool:
    """It is in the register, so it has its first heartbeat and claims."""
    from sessions_app.models import Worker

    return Worker.objects.filter(pid=process.pid).exists()
