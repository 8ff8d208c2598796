"""Which sessions have an isolated workspace, where they work, and what their commands see of the agent's workspace."""

import uuid
from dataclasses import replace

import pytest

from agents.context.workspace import prepare_session_workspace, workspace_path
from agents.models import Agent
from tests.harness.approvals import allow_approval_requests, claim_run
from tools_app.core.definition import CallRef, ToolEnv
from tools_app.exec.planning import CommandRequest, make_plan
from tools_app.exec.processes.running import RunningProcess
from tools_app.exec.processes.spawn import start_process
from tools_app.exec.rules import ExecRules
from tools_app.exec.sandbox.types import SpawnRequest

pytestmark = pytest.mark.usefixtures("database")

GROUP, HOOK, MAIN = "agent:main:telegram:group:-100", "agent:main:hook:mail", "agent:main:main"


@pytest.fixture
def agent(settings, tmp_path):
    settings.HOME = str(tmp_path)
    return Agent.objects.get(slug="main")


def place(agent, key, owner=7, session="s1", **rules):
    return prepare_session_workspace(agent, owner, session, key, replace(ExecRules(), **rules))


@pytest.mark.parametrize(
    ("mode", "sandboxed"), [("off", []), ("groups", [GROUP, HOOK]), ("all", [GROUP, HOOK, MAIN])], ids=["off", "groups", "all"]
)
def test_sandbox_mode_selects_sandboxed_sessions(agent, mode, sandboxed):
    assert [key for key in (GROUP, HOOK, MAIN) if place(agent, key, sandbox_mode=mode).sandboxed] == sandboxed


def test_group_chats_are_sandboxed_by_default(agent):
    assert place(agent, GROUP).sandboxed
    assert not place(agent, MAIN).sandboxed


def test_run_started_by_webhook_is_sandboxed_in_any_session(agent):
    def woken(**rules):
        return prepare_session_workspace(agent, 7, "s1", MAIN, replace(ExecRules(), **rules), from_hook=True).sandboxed

    assert woken()
    assert not woken(sandbox_mode="off")


@pytest.mark.parametrize(
    ("scope", "shares"),
    [
        ("session", {"session": False, "owner": False}),
        ("agent", {"session": True, "owner": False}),
        ("shared", {"session": True, "owner": True}),
    ],
    ids=["session", "agent", "shared"],
)
def test_sandbox_scope_determines_directory_sharing(agent, scope, shares):
    first = place(agent, GROUP, sandbox_scope=scope).directory
    assert (place(agent, GROUP, session="s2", sandbox_scope=scope).directory == first) is shares["session"]
    assert (place(agent, GROUP, session="s2", owner=8, sandbox_scope=scope).directory == first) is shares["owner"]
    assert first != workspace_path(agent, 7)


def test_sandbox_with_write_access_uses_agents_workspace(agent):
    inside = place(agent, GROUP, workspace_access="rw")
    assert (inside.sandboxed, inside.directory, inside.agent_workspace) == (True, workspace_path(agent, 7), None)


@pytest.mark.parametrize("access", ["none", "ro"])
async def test_sandboxed_command_respects_workspace_access(agent, user, make_session, access, tmp_path):
    allow_approval_requests(sandbox_mode="all", workspace_access=access)
    inside = place(agent, MAIN, owner=user.pk, session=str(uuid.uuid4()), sandbox_mode="all", workspace_access=access)
    own = workspace_path(agent, user.pk)
    (own / "notes.txt").write_text("mine")
    claimed = claim_run(user, make_session(user))
    env = ToolEnv(
        inside.directory, "main", user.pk, str(claimed.session_id), MAIN, run_pk=claimed.pk, agent_workspace=inside.agent_workspace
    )
    line = f"cat {own}/notes.txt; echo x > {own}/new; echo x > made; ls"
    planned = await make_plan(CommandRequest(line), CallRef("c1", "exec", {}), env)
    from tools_app.exec.environment import build_environment
    from tools_app.exec.planning import sandbox_from_plan

    sandbox = sandbox_from_plan(planned.plan)
    running: RunningProcess = await start_process(
        SpawnRequest(line, inside.directory, build_environment(sandbox.home), sandbox, 30)
    )
    running.close_stdin()
    printed = b"".join([chunk.data async for chunk in running.output()])
    await running.wait()
    assert (b"mine" in printed) is (access == "ro")
    assert not (own / "new").exists()
    assert (inside.directory / "made").exists()
