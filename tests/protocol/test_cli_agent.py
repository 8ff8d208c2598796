"""`claw agent` in a busy session: after a while it explains what the message waits for. No worker is running."""

import asyncio
from typing import Any

import pytest

from clawsite.cli.command import run_command
from clawsite.cli.commands import agent as cli
from clawsite.infra import db
from sessions_app.models import Run
from sessions_app.runs import freezes, lifecycle, waiting
from tests.harness.approvals import claim_run, park_for_approval

KEY = "agent:main:busy"


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch):
    monkeypatch.setattr(cli, "LONG_WAIT_SECONDS", 0.05)


def nothing(user: Any, session: Any, workspace: Any) -> None:
    pass


def a_question(user: Any, session: Any, workspace: Any) -> None:
    park_for_approval(user, session, workspace)


def work(user: Any, session: Any, workspace: Any) -> None:
    claim_run(user, session)


def a_stop(user: Any, session: Any, workspace: Any) -> None:
    claimed = claim_run(user, session)
    freezes.freeze("run", str(claimed.pk), reason="it deletes files", by=None, by_name="host")
    waiting.park_frozen(claimed)


def a_stop_of_everything(user: Any, session: Any, workspace: Any) -> None:
    freezes.freeze("all", reason="it deletes files", by=None, by_name="host")


def a_stop_of_its_agent(user: Any, session: Any, workspace: Any) -> None:
    freezes.freeze("agent", "other", reason="not this one", by=None, by_name="host")
    freezes.freeze("agent", "main", reason="it deletes files", by=None, by_name="host")


@pytest.mark.parametrize(
    ("before", "message"),
    [
        (nothing, "no worker has claimed it yet (claw status)"),
        (a_question, "the previous run in this session is waiting for approval (claw approvals list)"),
        (work, "the previous run in this session is still running"),
        (a_stop, "the previous run in this session is frozen (claw panic --list)"),
        (a_stop_of_everything, "everything is frozen by host: it deletes files (claw panic --list)"),
        (a_stop_of_its_agent, "agent main is frozen by host: it deletes files (claw panic --list)"),
    ],
)
async def test_queued_message_shows_what_it_waits_for(
    address, user, make_session, make_token, tmp_path, monkeypatch, capsys, eventually, before, message
):
    session = make_session(user, KEY)
    await db.write(before, user, session, tmp_path, alone=True)
    monkeypatch.setenv("CLAWSITE_GATEWAY_TOKEN", make_token(user))
    # The command runs its own event loop beside the server's.
    arguments = ["and now?", "--session", KEY, "--url", f"http://{address}"]
    talking = asyncio.create_task(asyncio.to_thread(run_command, cli, "agent", arguments))
    output = ""

    def noted() -> bool:
        nonlocal output
        output += capsys.readouterr().err
        return bool(output) or talking.done()

    await eventually(noted)
    await eventually(lambda: Run.objects.filter(prompt="and now?").exists() or talking.done())
    await db.write(lifecycle.request_abort, user=user, session=session, alone=True)
    assert await talking == 1
    assert output == f"· queued; {message}\n"
