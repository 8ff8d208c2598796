"""`claw serve` from the first start to shutdown, with real processes and a temporary state directory."""

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from clawsite.client import Client, Endpoint
from tests.harness.database import pristine_database
from tests.harness.services import free_port
from tests.journeys.claw_command import clean_environment, run_claw, start_claw

PATIENCE = 60.0


class Served:
    """A running `claw serve` and its output so far."""

    def __init__(self, home: Path, **env: str) -> None:
        self.home, self.port = home, free_port()
        self.env = clean_environment(CLAWSITE_HOME=str(home), CLAWSITE_PORT=str(self.port), CLAWSITE_DRAIN_SECONDS="2", **env)
        self.out: list[str] = []
        self.err: list[str] = []

    def start(self) -> "Served":
        self.process = start_claw("serve", env=self.env)
        for stream, lines in ((self.process.stdout, self.out), (self.process.stderr, self.err)):
            threading.Thread(target=self._collect, args=(stream, lines), daemon=True).start()
        return self

    @staticmethod
    def _collect(stream: Any, lines: list[str]) -> None:
        for line in stream:
            lines.append(line)

    def text(self) -> str:
        return "".join(self.out)

    def until(self, condition: Any) -> None:
        give_up = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < give_up, f"it did not happen:\n{self.text()}\n{''.join(self.err)}"
            time.sleep(0.02)

    def times_to_ready(self) -> list[int]:
        """Return the startup time of each web process in milliseconds."""
        return [int(line.rsplit("ms=", 1)[1]) for line in self.err if "web is ready" in line]

    def until_running(self) -> "Served":
        self.until(lambda: "Stop " in self.text())
        return self

    def children(self) -> dict[str, psutil.Process]:
        """Return the child processes by role: web, worker."""
        children = {}
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess, IndexError):
                children[child.cmdline()[3]] = child
        return children

    def health(self) -> dict[str, Any]:
        async def ask() -> Any:
            endpoint = Endpoint(
                url=f"ws://127.0.0.1:{self.env['CLAWSITE_PORT']}/ws", token=(self.home / "gateway.token").read_text()
            )
            async with Client(endpoint) as client:
                return await client.request("health", {"probe": True})

        return asyncio.run(ask())

    def end(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in [*psutil.Process(self.process.pid).children(recursive=True), self.process]:
                process.kill()
        self.process.wait(PATIENCE)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Served]:
    """First start, in a directory that does not exist yet."""
    one = Served(tmp_path / "home").start()
    yield one.until_running()
    one.end()


@pytest.fixture
def served(tmp_path: Path, django_db_setup: None) -> Iterator[Served]:
    """Start with a migrated database, which takes half as long as a first start."""
    one = Served(tmp_path / "home")
    one.home.mkdir(mode=0o700)
    shutil.copy(pristine_database(), one.home / "clawsite.sqlite3")
    one.start()
    yield one.until_running()
    one.end()


def gone(processes: list[psutil.Process]) -> bool:
    return all(not process.is_running() or process.status() == psutil.STATUS_ZOMBIE for process in processes)


def test_first_start_prepares_and_prints_the_sign_in_link(started: Served) -> None:
    text = started.text()
    assert re.search(r"Applying \d+ migrations", text)
    assert f"http://127.0.0.1:{started.port}/first-admin/" in text
    assert "demo/clawsite" in text
    assert str(started.home) in text
    assert "Ctrl-C" in text
    assert "\x1b" not in text
    for _ in range(300):  # the worker tests its sandbox first
        if started.health()["workers"]:
            break
        time.sleep(0.1)
    assert started.health()["workers"] == 1


def test_state_directory_is_private_from_the_start(started: Served) -> None:
    assert started.home.stat().st_mode & 0o077 == 0
    for name in ("secret.key", "gateway.token"):
        assert (started.home / name).stat().st_mode & 0o077 == 0


def test_commands_find_the_server_by_its_state_directory(served: Served) -> None:
    env = clean_environment(CLAWSITE_HOME=str(served.home))
    assert run_claw("call", "health", env=env).code == 0
    assert f"responds at ws://127.0.0.1:{served.port}/ws" in run_claw("doctor", env=env).out
    web = start_claw("web", "--port", str(free_port()), env=served.env)  # a second web process
    assert web.stderr is not None
    assert any("listening at" in line for line in web.stderr)
    web.terminate()
    web.communicate(timeout=PATIENCE)
    assert run_claw("call", "health", env=env).code == 0
    served.process.send_signal(signal.SIGTERM)
    served.process.wait(PATIENCE)
    assert not (served.home / "address").exists()
    alone = start_claw("web", "--port", str(served.port), env=env)
    assert alone.stderr is not None
    assert any("listening at" in line for line in alone.stderr)
    assert run_claw("call", "health", env=env).code == 0
    alone.terminate()
    alone.communicate(timeout=PATIENCE)
    assert not (served.home / "address").exists()


def test_second_server_on_a_state_directory_fails_and_names_the_first(served: Served) -> None:
    outcome = run_claw("serve", env={**served.env, "CLAWSITE_PORT": str(free_port())})
    assert outcome.code == 1
    assert f"already running on {served.home} as process {served.process.pid}" in outcome.err
    assert served.health()["ok"]


def test_sigterm_stops_everything_and_the_next_start_is_fast_and_quiet(served: Served) -> None:
    served.until(lambda: set(served.children()) == {"web", "worker"})  # `prepare` may still be exiting
    children = list(served.children().values())
    served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(PATIENCE) == 0
    assert len(children) == 2
    assert gone(children)
    again = Served(served.home)
    again.start().until_running()
    try:
        assert "migrations" not in again.text()
        assert "first-admin" in again.text()  # the first link was not used
    finally:
        again.end()


def test_children_exit_with_killed_supervisor_and_restart_works(served: Served) -> None:
    children = list(served.children().values())
    os.kill(served.process.pid, signal.SIGKILL)
    served.process.wait(PATIENCE)
    again = Served(served.home)
    again.env = served.env  # reuse the port immediately: the remaining processes release it
    again.start().until_running()
    try:
        served.until(lambda: gone(children))
        assert again.health()["ok"]
    finally:
        again.end()


def test_dead_child_is_restarted_while_new_connections_wait(served: Served) -> None:
    for role in ("web", "worker"):
        before = served.children()[role].pid
        os.kill(before, signal.SIGKILL)
        served.until(lambda role=role, before=before: (child := served.children().get(role)) and child.pid != before)
        served.until(lambda: any("restarting it" in line for line in served.err))
        assert served.health()["ok"]  # connected immediately: the supervisor keeps the port open while web restarts
    served.until(lambda: len(served.times_to_ready()) == 2)
    lived = (time.time() - psutil.Process(served.process.pid).create_time()) * 1000
    assert sum(served.times_to_ready()) < lived  # each counts from the start of its process


def test_second_signal_kills_immediately(served: Served) -> None:
    children = served.children()
    children["worker"].suspend()  # a suspended worker can't drain, so after the first signal alone the server would wait for it
    served.process.send_signal(signal.SIGINT)
    served.until(lambda: any("stopping" in line for line in served.err))
    served.process.send_signal(signal.SIGINT)
    served.process.wait(PATIENCE)
    assert gone(list(children.values()))


def test_open_sockets_are_notified_of_shutdown(served: Served) -> None:
    async def watch() -> list[str]:
        endpoint = Endpoint(url=f"ws://127.0.0.1:{served.port}/ws", token=(served.home / "gateway.token").read_text())
        async with Client(endpoint) as client:
            connection = await client.connection()
            with connection.listen() as frames:
                served.process.send_signal(signal.SIGTERM)
                events = []
                while (frame := await asyncio.wait_for(frames.get(), PATIENCE)) is not None:
                    events.append(frame["event"])
            assert "1012" in (connection.lost_because or "")
            return events

    assert asyncio.run(watch())[-1] == "shutdown"


def test_port_in_use_is_reported_briefly(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = run_claw("serve", env=clean_environment(CLAWSITE_HOME=str(tmp_path), CLAWSITE_PORT=str(port)))
    assert outcome.code == 1
    assert f"127.0.0.1:{port} is in use" in outcome.err
    assert "Traceback" not in outcome.err


def test_admin_from_environment_without_password_in_web_and_worker(tmp_path: Path) -> None:
    served = Served(tmp_path / "home", CLAWSITE_ADMIN_USERNAME="anna", CLAWSITE_ADMIN_PASSWORD="correct-horse-battery").start()
    try:
        served.until_running()
        assert "as anna" in served.text()
        assert "first-admin" not in served.text()
        for child in served.children().values():
            assert "CLAWSITE_ADMIN_PASSWORD" not in child.environ()
    finally:
        served.end()


def test_unreachable_database_fails_startup_with_short_error(tmp_path: Path) -> None:
    url = f"postgresql://claw@127.0.0.1:{free_port()}/claw"
    outcome = run_claw(
        "serve", env=clean_environment(CLAWSITE_HOME=str(tmp_path), CLAWSITE_PORT=str(free_port()), DATABASE_URL=url)
    )
    assert outcome.code == 1
    assert "is PostgreSQL running there" in outcome.err
    assert "Traceback" not in outcome.err
