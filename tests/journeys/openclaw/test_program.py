"""OpenClaw's own command line and terminal UI, the released program unchanged, connected to Clawsite."""

import itertools
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from clawsite.accounts.tokens import issue_token
from clawsite.gateway.models import Device
from tests.harness.stack import Stack
from tests.journeys.openclaw.terminal import Terminal
from tests.protocol.openclaw.packages import modules, node

PATIENCE = 120.0  # the program takes 3 s to start (the terminal UI 8), and several times that on a busy machine
ESCAPE = "\x1b"
_numbers = itertools.count(1)


class OpenClaw:
    """The program with its own home directory, for its settings, device key and device token."""

    def __init__(self, home: Path, url: str, token: str) -> None:
        self.state = home / ".openclaw"
        self.state.mkdir(parents=True)
        self.url, self.token = url, token
        program = modules(Path(__file__).parent) / "node_modules" / "openclaw" / "openclaw.mjs"
        self.command = [str(node()), str(program)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENCLAW_", "CLAWSITE_"))}
        paths = {"HOME": str(home), "OPENCLAW_STATE_DIR": str(self.state)}
        self.env = {**kept, **paths, "PATH": f"{node().parent}{os.pathsep}{kept['PATH']}", "NO_COLOR": "1"}
        self.remember({"url": url, "token": token})

    def remember(self, gateway: dict[str, str]) -> None:
        """Write the program's settings: the address of the gateway."""
        (self.state / "openclaw.json").write_text(json.dumps({"gateway": {"mode": "remote", "remote": gateway}}))

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.command, *arguments], env=self.env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    def call(self, method: str, **params: Any) -> Any:
        words = ("gateway", "call", method, "--json", "--url", self.url, "--token", self.token, "--params", json.dumps(params))
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def terminal(self, *arguments: str) -> Terminal:
        return Terminal([*self.command, "tui", *arguments], self.env)


@pytest.fixture
def openclaw(live: Stack, tmp_path) -> OpenClaw:
    return OpenClaw(tmp_path / "openclaw", live.url.replace("http", "ws"), live.token)


@pytest.fixture
def session() -> str:
    return f"agent:main:openclaw-{next(_numbers)}"


def test_cli_calls_methods_and_messages_an_agent(openclaw, session):
    assert openclaw.call("health")["ok"] is True
    answered = openclaw.run("agent", "--agent", "main", "--session-key", session, "-m", "say [[tokens=3]]")
    assert (answered.returncode, answered.stdout.strip()) == (0, "w0 w1 w2"), answered.stderr
    messages = openclaw.call("chat.history", sessionKey=session)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"]
    assert session in [row["key"] for row in openclaw.call("sessions.list")["sessions"]]


def test_cli_reports_missing_and_forbidden_methods(openclaw):
    absent = openclaw.run("cron", "list")
    assert (absent.returncode, "unknown method: cron.list" in absent.stderr) == (1, True)
    forbidden = openclaw.run("devices", "list")
    assert (forbidden.returncode, "missing scope: operator.pairing" in forbidden.stderr) == (1, True)


LOOKING = (
    *("status --json", "health --json", "models list --json", "devices list --json", "nodes list --json"),
    *("approvals get --gateway --json", "gateway usage-cost --json", "logs --json"),
)


def test_read_only_cli_commands_show_current_state(live, tmp_path, make_user):
    olga = make_user("User", "Operator", "Approver", name="olga")
    Device.objects.create(owner=olga, fingerprint="ab" * 32, public_key="x", display_name="Kitchen", is_node=True)
    at_gateway = (live.url.replace("http", "ws"), live.api_token(olga))
    key = "agent:main:looked-at"
    OpenClaw(tmp_path / "said", *at_gateway).run("agent", "--agent", "main", "--session-key", key, "-m", "say [[tokens=3]]")

    def look(command: str) -> str:
        """Run the command in a separate home directory, so that two can run at the same time."""
        done = OpenClaw(tmp_path / command.replace(" ", ""), *at_gateway).run(*command.split())
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    with ThreadPoolExecutor(2) as two:
        *told, logs = two.map(look, LOOKING)
    status, health, models, devices, nodes, rules, cost = map(json.loads, told)
    assert key in [row["key"] for row in status["sessions"]["recent"]]
    assert (health["ok"], health["workers"]) == (True, len(live.workers))
    assert [row["available"] for row in models["models"] if row["key"] == "openai/fake-1"] == [True]
    for listed in (devices, nodes):
        assert (olga.username, "Kitchen") in [(row["owner"], row.get("displayName")) for row in listed["paired"]]
    assert rules["file"]["agents"] == {}
    assert cost["totals"]["totalTokens"] > 0
    assert "client connected" in logs


def test_tui_chats_aborts_and_reconnects_with_device_token(openclaw, session, make_user):
    openclaw.token = issue_token(make_user(), "openclaw", ["operator.read", "operator.write"])[1]  # programs get no device token
    with openclaw.terminal("--url", openclaw.url, "--token", openclaw.token, "--session", session) as first:
        first.wait_for("gateway connected", PATIENCE)
        first.type("say [[tokens=9 hang_after=3]]\r")
        first.wait_for("w0 w1 w2", PATIENCE)
        first.type(ESCAPE)
        first.wait_for("connected | aborted", PATIENCE)
        first.type("say [[tokens=5]]\r")
        first.wait_for("w3 w4", PATIENCE)
        openclaw.call("chat.send", sessionKey=session, message="said elsewhere", idempotencyKey=f"{session} elsewhere")
        first.wait_for("said elsewhere", PATIENCE)
    openclaw.remember({"url": openclaw.url})  # without an access token: it only has its device token
    with openclaw.terminal("--session", session) as second:
        second.wait_for("gateway connected", PATIENCE)
        second.wait_for("said elsewhere", PATIENCE)
