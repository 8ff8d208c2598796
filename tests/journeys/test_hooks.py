"""Plugin hooks in real runs: blocked calls don't run; changed calls are authorized, recorded and run as changed."""

import pytest

from agents.context.workspace import ensure_workspace
from agents.models import Agent
from agents.prepare import run_plan
from tests.harness.commands import exec_prompt, require_approval
from tests.harness.worker import WorkerHarness, calls_of, transcript_of
from tools_app.approvals import requests as approval_requests
from tools_app.core.plugin_hooks import HookAnswer, HookCall, PluginHook
from tools_app.models import Approval, Command
from tools_app.policy_store import policies
from tools_app.sources.tools import load_tools

WRITE = '[[tool=write args={"path":"hooked/asked.txt","content":"x"}]] [[text=done]]'


@pytest.fixture
def hooked(monkeypatch):
    def install(hook) -> list[HookCall]:
        seen: list[HookCall] = []

        def noted(call: HookCall):
            seen.append(call)
            return hook(call)

        monkeypatch.setattr(run_plan, "tools_and_hooks", lambda: (load_tools(), (PluginHook("guard", noted),)))
        return seen

    return install


def files(harness: WorkerHarness) -> set[str]:
    folder = ensure_workspace(Agent.objects.get(slug="main"), harness.user.pk) / "hooked"
    found = {file.name for file in folder.iterdir()} if folder.exists() else set()
    for name in found:
        (folder / name).unlink()
    return found


async def test_hook_sees_and_can_block_the_call(harness: WorkerHarness, hooked):
    seen = hooked(lambda call: HookAnswer(block="not on a Monday"))
    run = await harness.answer(WRITE)
    (row,) = calls_of(run)
    assert (row.status, row.result["details"]["code"]) == ("failed", "blocked_by_hook")
    assert "plugin guard blocked this call: not on a Monday" in transcript_of(run)[2][1]
    assert (seen[0].tool, seen[0].agent, seen[0].arguments["path"]) == ("write", "main", "hooked/asked.txt")
    assert (run.status, files(harness)) == ("completed", set())


async def test_arguments_changed_by_hook_are_executed_and_recorded(harness: WorkerHarness, hooked):
    hooked(lambda call: HookAnswer(arguments={"path": "hooked/changed.txt"}))
    run = await harness.answer(WRITE)
    (row,) = calls_of(run)
    assert (row.status, row.arguments) == ("finished", {"path": "hooked/changed.txt", "content": "x"})
    assert files(harness) == {"changed.txt"}


async def test_hook_is_not_called_for_denied_tools(harness: WorkerHarness, hooked):
    seen = hooked(lambda call: HookAnswer(arguments={"path": "hooked/changed.txt"}))
    policies.save_policy(scope="agent", subject="main", profile="coding", deny=["write"])
    try:
        run = await harness.answer(WRITE)
    finally:
        policies.save_policy(scope="agent", subject="main", profile="coding")
    assert ([call.status for call in calls_of(run)], seen, files(harness)) == (["refused"], [], set())


async def test_failing_hook_blocks_the_call(harness: WorkerHarness, hooked):
    hooked(lambda call: 1 / 0)
    run = await harness.answer(WRITE)
    assert "its hook failed (ZeroDivisionError)" in transcript_of(run)[2][1]
    assert (run.status, files(harness)) == ("completed", set())


async def test_hook_sees_canonical_argument_names(harness: WorkerHarness, hooked):
    seen = hooked(lambda call: HookAnswer(block="no") if call.arguments.get("path", "").startswith("hooked/") else None)
    run = await harness.answer('[[tool=write args={"file_path":"hooked/a.txt","contents":"x"}]] [[text=done]]')
    assert seen[0].arguments == {"path": "hooked/a.txt", "content": "x"}
    assert (calls_of(run)[0].result["details"]["code"], files(harness)) == ("blocked_by_hook", set())


async def test_repeatedly_blocked_call_is_detected_as_loop(harness: WorkerHarness, hooked):
    hooked(lambda call: HookAnswer(block="no"))
    run = await harness.answer('[[tool=read args={"path":"nothing"}]] ' * 6 + "[[text=done]]")
    assert [call.result["details"]["code"] for call in calls_of(run)] == ["blocked_by_hook"] * 5 + ["loop_detected"]


async def test_repeated_call_is_stopped_even_if_hook_changes_it(harness: WorkerHarness, hooked):
    hooked(lambda call: HookAnswer(arguments={"limit": 7}))
    again = '[[tool=read args={"path":"nothing"}]]'
    run = await harness.answer(f"{again * 7} [[text=done]]")
    assert "loop_detected" in [call.result["details"].get("code") for call in calls_of(run)]


@pytest.mark.parametrize(("later", "made", "status"), [("shown", {"shown.txt"}, "used"), ("worse", set(), "void")])
async def test_approval_covers_only_the_command_changed_by_hook(harness: WorkerHarness, hooked, make_user, later, made, status):
    """Hooks run again when the run continues. If one responds differently then, the approved call is not the one that would run."""
    require_approval()
    (ensure_workspace(Agent.objects.get(slug="main"), harness.user.pk) / "hooked").mkdir(exist_ok=True)
    says = ["shown"]
    hooked(lambda call: HookAnswer(arguments={"command": f"touch hooked/{says[0]}.txt"}))
    run_pk = harness.send(exec_prompt(command="ls"))
    await harness.until(run_pk, "waiting")
    question = Approval.objects.get(run=run_pk)
    assert question.plan["line"] == "touch hooked/shown.txt"
    await harness.close()
    says[0] = later
    approval_requests.resolve_approval(question.pk, by=make_user("Approver"), decision="allow-once", seen_hash=question.plan_hash)
    harness.open()
    run = await harness.ended(run_pk)
    question.refresh_from_db()
    assert (run.status, files(harness), question.status) == ("completed", made, status)
    assert [command.plan_hash for command in Command.objects.filter(run=run)] == [question.plan_hash] * len(made)
