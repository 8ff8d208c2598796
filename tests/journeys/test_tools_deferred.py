"""A tool returns `Deferred`: its run parks, and the call gets its result once and runs once, whatever happens in between."""

import json
from pathlib import Path

import pytest

from agents.run_store import RunStore
from clawsite.infra import db
from sessions_app.models import Run, ToolCall
from sessions_app.runs import lifecycle, queue, tool_calls, waiting
from sessions_app.runs.tool_calls import CallDecision
from tests.harness.plugins import install_plugin, record_plugins, unload_plugins
from tests.harness.policies import restore_policy
from tests.harness.waits import waiting_for
from tests.harness.worker import WorkerHarness, calls_of, phases_of, transcript_of, view_of
from tools_app.models import Plugin
from tools_app.policy_store import policies

pytestmark = pytest.mark.dialect

# The result is in a file, whose path is the reference; every call adds a line to the log.
LATER = """
from pathlib import Path

from tools_app.core.definition import Deferred, ToolArgs, ToolFailed, text_result, tool


class Args(ToolArgs):
    path: str
    seconds: float = 0


async def resume(env, deferred):
    assert deferred.kind == "external"
    file = Path(deferred.ref)
    if not file.exists():
        return text_result("no answer in time") if deferred.overdue and deferred.call.arguments["seconds"] > 0.01 else None
    if file.read_text() == "bad":
        raise ToolFailed("the answer is bad")
    return text_result(file.read_text())


@tool("later", args=Args, read_only=True, resume=resume)
def make_later(env):
    '''Return the content of a file once it exists.'''

    async def later(args, call):
        with open(args.path + ".log", "a") as log:
            log.write("called\\n")
        return Deferred("external", args.path, args.seconds or None)

    return later


@tool("never", args=Args)
def make_never(env):
    '''Defer without a way to resume.'''

    async def never(args, call):
        return Deferred("external", args.path)

    return never


tools = [make_later, make_never]
"""


class Answer:
    """The row that a deferred call refers to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def prompt(self, **more) -> str:
        name = more.pop("name", "later")
        options = "".join(f" {key}={value}" for key, value in more.pop("options", {}).items())
        return f"[[tool={name} args={json.dumps({'path': str(self.path), **more})}{options}]]"

    @property
    def calls(self) -> int:
        log = Path(f"{self.path}.log")
        return len(log.read_text().splitlines()) if log.exists() else 0

    def settle(self, text: str = "settled") -> None:
        self.path.write_text(text)


@pytest.fixture
def answers(tmp_path, database, monkeypatch):
    """Make answers, named by files, for a plugin's tools that defer their calls."""
    unload_plugins(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    install_plugin(tmp_path, "later", LATER)
    # Nothing finds a settled reference: the tests wake the runs.
    monkeypatch.setitem(waiting._kinds, "external", waiting.WaitKind(lambda references: set()))
    record_plugins()
    Plugin.objects.filter(name="later").update(enabled=True)
    record_plugins()
    with restore_policy():
        policies.save_policy(scope="agent", subject="main", profile="full", also_allow=["later", "never"])
        yield lambda name: Answer(tmp_path / name)
    unload_plugins(tmp_path)


def results_of(run: Run | int) -> list[str]:
    return [text for role, text in transcript_of(run) if role == "toolResult"]


async def wake(run_pk: int) -> None:
    assert await db.write(waiting.make_ready, [run_pk]) == 1


async def park(harness: WorkerHarness, prompt: str) -> int:
    run_pk = harness.send(prompt)
    await harness.until(run_pk, "waiting")
    return run_pk


async def test_deferred_call_parks_the_run_until_its_row_is_settled(harness: WorkerHarness, answers, eventually):
    answer = answers("a")
    run_pk = await park(harness, answer.prompt() + "[[text=done]]")
    await eventually(lambda: not harness.busy)
    assert waiting_for(run_pk) == "external"
    (call,) = calls_of(run_pk)
    assert (call.status, call.deferred) == ("waiting", {"kind": "external", "ref": str(answer.path), "until": None})
    answer.settle()
    await wake(run_pk)
    run = await harness.ended(run_pk)
    assert (run.status, results_of(run), transcript_of(run)[-1]) == ("completed", ["settled"], ("assistant", "done"))
    assert (calls_of(run)[0].status, answer.calls) == ("finished", 1)
    assert phases_of(run) == ["accepted", "start", "waiting", "resume", "end"]
    (tool,) = view_of(run).tools.values()
    assert (tool.status, tool.text) == ("finished", "settled")


async def test_run_resumed_too_early_parks_again(harness: WorkerHarness, answers, eventually):
    answer = answers("a")
    run_pk = await park(harness, answer.prompt())
    await wake(run_pk)
    await eventually(lambda: phases_of(run_pk) == ["accepted", "start", "waiting", "resume", "waiting"])
    assert (answer.calls, results_of(run_pk)) == (1, [])


@pytest.mark.parametrize(("seconds", "told"), [(0.02, "no answer in time"), (0.01, "tool_timeout: `later` had no result")])
async def test_overdue_call_gets_a_result(harness: WorkerHarness, answers, eventually, seconds, told):
    run_pk = await park(harness, answers("a").prompt(seconds=seconds))

    async def woken() -> bool:
        await db.write(waiting.make_ready, [run_pk])
        return Run.objects.get(pk=run_pk).status in Run.ENDED

    while not await woken():
        pass
    assert results_of(run_pk)[0].startswith(told)


async def test_failed_resume_is_an_error_result(harness: WorkerHarness, answers):
    answer = answers("a")
    run_pk = await park(harness, answer.prompt())
    answer.settle("bad")
    await wake(run_pk)
    run = await harness.ended(run_pk)
    assert (results_of(run), calls_of(run)[0].status) == (["the answer is bad"], "failed")


async def test_read_only_calls_defer_together(harness: WorkerHarness, answers, eventually):
    first, second = answers("a"), answers("b")
    glob = '[[tool=glob args={"pattern":"*"} parallel=1]]'
    run_pk = await park(harness, f"{first.prompt()} {glob} {second.prompt(options={'parallel': 1})}")
    assert [call.status for call in calls_of(run_pk)] == ["waiting", "finished", "waiting"]
    second.settle("two")
    await wake(run_pk)
    await eventually(lambda: phases_of(run_pk)[-2:] == ["resume", "waiting"])
    assert [call.status for call in calls_of(run_pk)] == ["waiting", "finished", "finished"]
    first.settle("one")
    await wake(run_pk)
    run = await harness.ended(run_pk)
    sent = [message["content"] for message in harness.model.bodies[-1]["messages"] if message["role"] == "tool"]
    assert (run.status, sent[0], sent[2], first.calls, second.calls) == ("completed", "one", "two", 1, 1)


async def test_mutating_call_after_a_deferred_call_is_not_started(harness: WorkerHarness, answers):
    first = answers("a")
    write = '[[tool=write args={"path":"b.txt","content":"x"} parallel=1]]'
    run_pk = await park(harness, f"{first.prompt()} {write}")
    assert [call.status for call in calls_of(run_pk)] == ["waiting", "allowed"]
    first.settle("one")
    await wake(run_pk)
    run = await harness.ended(run_pk)
    assert [call.status for call in calls_of(run)] == ["finished", "finished"]
    assert (first.calls, results_of(run)[0]) == (1, "one")


async def test_tool_without_resume_cannot_defer(harness: WorkerHarness, answers):
    run = await harness.answer(answers("a").prompt(name="never"))
    assert results_of(run) == ["the tool failed unexpectedly (TypeError)"]


async def test_stopped_run_closes_its_deferred_call(harness: WorkerHarness, answers):
    run_pk = await park(harness, answers("a").prompt())
    lifecycle.request_abort(user=harness.user, session=harness.session)
    run = await harness.ended(run_pk)
    assert (run.status, calls_of(run)[0].status) == ("aborted", "failed")
    assert results_of(run) == ["stopped: the run ended (rpc) before its result arrived."]


async def test_tool_gone_while_its_call_is_deferred_is_an_error_result(harness: WorkerHarness, answers):
    answer = answers("a")
    run_pk = await park(harness, answer.prompt())
    Plugin.objects.filter(name="later").update(enabled=False)
    answer.settle()
    await wake(run_pk)
    run = await harness.ended(run_pk)
    assert results_of(run)[0].startswith("`later` is no longer available")


async def test_worker_killed_between_deferring_and_parking_neither_loses_nor_repeats_the_call(
    harness: WorkerHarness, answers, monkeypatch, eventually
):
    """The first worker commits the deferral and dies before it parks the run; another one recovers it."""
    answer = answers("a")
    parks = RunStore.park
    died = []

    async def killed(store: RunStore, reason: str) -> None:
        if died:
            await parks(store, reason)
            return
        died.append(store)
        await db.write(Run.objects.filter(pk=store._claimed.pk).update, lease_until=1.0)
        raise queue.LeaseLost("killed")

    monkeypatch.setattr(RunStore, "park", killed)
    run_pk = harness.send(answer.prompt() + "[[text=done]]")
    run = await harness.until(run_pk, "waiting")
    assert (len(died), run.rescues) == (1, 1)
    assert (calls_of(run)[0].status, answer.calls, results_of(run)) == ("waiting", 1, [])
    answer.settle()
    await wake(run_pk)
    run = await harness.ended(run_pk)
    assert (answer.calls, results_of(run), calls_of(run)[0].status) == (1, ["settled"], "finished")


async def test_stale_worker_cannot_defer_a_call(user, make_session):
    """Another worker has recovered the run and marked the call as interrupted."""
    lifecycle.accept_run(user=user, session=make_session(user), run_id="k", prompt="hi")
    (claimed,) = queue.claim_runs("first", 1).runs
    tool_calls.record_decisions(claimed, [CallDecision("c1", "later", {}, ToolCall.Status.ALLOWED)])
    tool_calls.mark_started(claimed, "c1", "later", {})
    Run.objects.filter(pk=claimed.pk).update(lease_until=1.0)
    (recovered,) = queue.recover_runs("second", 1)
    for worker in (claimed, recovered):
        with pytest.raises(queue.LeaseLost):
            tool_calls.record_deferral(worker, "c1", "external", "a", None)
    assert [(call.status, call.deferred) for call in calls_of(claimed.pk)] == [("interrupted", None)]
