"""Which sessions are sandboxed, where they then work, and what of the agent's own workspace their commands see."""

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
def test_the_mode_says_which_sessions_are_sandboxed(agent, mode, sandboxed):
    assert [key for key in (GROUP, HOOK, MAIN) if place(agent, key, sandbox_mode=mode).sandboxed] == sandboxed


def test_group_chats_and_webhooks_are_sandboxed_where_nobody_says_otherwise(agent):
    assert place(agent, GROUP).sandboxed
    assert not place(agent, MAIN).sandboxed


def test_a_run_that_a_webhook_woke_is_sandboxed_wherever_it_is(agent):
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
def test_the_scope_says_who_shares_the_directory_of_a_sandbox(agent, scope, shares):
    first = place(agent, GROUP, sandbox_scope=scope).directory
    assert (place(agent, GROUP, session="s2", sandbox_scope=scope).directory == first) is shares["session"]
    assert (place(agent, GROUP, session="s2", owner=8, sandbox_scope=scope).directory == first) is shares["owner"]
    assert first != workspace_path(agent, 7)


def test_with_write_access_the_sandbox_works_in_the_agents_own_workspace(agent):
    inside = place(agent, GROUP, workspace_access="rw")
    assert (inside.sandboxed, inside.directory, inside.agent_workspace) == (True, workspace_path(agent, 7), None)


@pytest.mark.parametrize("access", ["none", "ro"])
async def test_a_command_in_a_sandbox_sees_of_the_agents_workspace_what_the_rules_say(agent, user, make_session, access, tmp_path):
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
