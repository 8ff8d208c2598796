"""A temporary installation to measure: state directory, fake model and Clawsite's processes, all on 127.0.0.1."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from bench.gateway.processes import tree
from tests.harness import services

PROJECT = Path(__file__).resolve().parent.parent
TOKEN = "bench-gateway-token"
# The developer's settings must not affect measurements.
CLEARED = ("CLAWSITE_", "OPENAI_", "ANTHROPIC_", "OPENROUTER_", "DATABASE_URL", "REDIS_URL", "DJANGO_")
# Without the bytecode that every installation has, starting takes more than twice as long.
WITHOUT_BYTECODE = "PYTHONDONTWRITEBYTECODE"


class CommandLauncher:
    """Starts commands and stops them with their children."""

    def __init__(
        self, *commands: Sequence[str], log: str | Path, env: Mapping[str, str] | None = None, directory: Path = PROJECT
    ) -> None:
        self._commands, self._log, self._env, self._directory = commands, log, env, directory
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> list[int]:
        with open(self._log, "ab") as log:
            self._running = [
                subprocess.Popen(
                    command,
                    cwd=self._directory,
                    env=self._env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                for command in self._commands
            ]
        return [process.pid for process in self._running]

    def stop(self, *, kill: bool = False) -> None:
        members = tree(process.pid for process in self._running)
        for process in self._running:
            process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        for process in self._running:
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running = []
        for member in members:
            with contextlib.suppress(psutil.Error):
                member.kill()


class Installation:
    """Clawsite as users start it: `serve` on SQLite, or two `web` and two `worker` processes on PostgreSQL and Redis.

    `program` is the module of the fake model, and `model` its name. `project` is the checkout to measure.
    """

    def __init__(
        self,
        database: str = "sqlite",
        *,
        program: str = "tests.harness.fake_model",
        model: str = "openai/fake-1",
        project: Path = PROJECT,
    ) -> None:
        self.database = database
        self.project = project
        self._manage = manage_command(project)
        self.home = Path(tempfile.mkdtemp(prefix="clawsite-bench-"))
        self.log = self.home / "processes.log"
        self._llm_port = services.free_port()
        self.llm = f"http://127.0.0.1:{self._llm_port}"
        ports = [services.free_port() for _ in range(2 if database == "postgres" else 1)]
        self.urls = [f"ws://127.0.0.1:{port}/ws" for port in ports]
        self.env = {name: value for name, value in os.environ.items() if not name.startswith((*CLEARED, WITHOUT_BYTECODE))}
        self.env |= {
            "CLAWSITE_HOME": str(self.home / "state"),
            "CLAWSITE_PORT": str(ports[0]),
            "CLAWSITE_GATEWAY_TOKEN": TOKEN,
            "CLAWSITE_MODEL": model,
            "OPENAI_API_KEY": "bench",
            "OPENAI_BASE_URL": f"{self.llm}/v1",
        }
        commands = [[*self._manage, "serve"]]
        if database == "postgres":
            self.env |= {"DATABASE_URL": services.start_postgres(), "REDIS_URL": services.start_redis()}
            commands = [[*self._manage, "web", "--port", str(port)] for port in ports] + [[*self._manage, "worker"]] * 2
        self._model = CommandLauncher([sys.executable, "-m", program, "--port", str(self._llm_port)], log=self.log, env=self.env)
        self.launcher = CommandLauncher(*commands, log=self.log, env=self.env, directory=project)

    def open(self) -> list[int]:
        """Start the model and migrate the database. Return the PIDs of the model and the database servers."""
        self._model.start()
        _wait_for_port(self._llm_port)
        prepare(self.env, self.project)
        return [child.pid for child in psutil.Process().children()]

    def close(self) -> None:
        self._model.stop()
        shutil.rmtree(self.home, ignore_errors=True)


def manage_command(project: Path) -> list[str]:
    """Return the command line of a checkout's manage.py, in its own virtual environment if it has one."""
    own_python = project / ".venv" / "bin" / "python"
    python = str(own_python) if project != PROJECT and own_python.exists() else sys.executable
    return [python, str(project / "manage.py")]


def prepare(env: Mapping[str, str], project: Path = PROJECT) -> None:
    """Migrate the database in the environment's DATABASE_URL."""
    subprocess.run([*manage_command(project), "prepare"], cwd=project, env=env, check=True, stdout=subprocess.DEVNULL)


def _wait_for_port(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port} after 10 s")
