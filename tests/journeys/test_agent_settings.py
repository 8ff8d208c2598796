"""Settings that an operator makes on an agent apply to its runs."""

from agents.models import Agent
from tests.harness.worker import WorkerHarness, calls_of


async def test_agent_timeout_ends_its_runs(harness: WorkerHarness):
    await Agent.objects.filter(slug="main").aupdate(run_timeout_seconds=0.3)
    run = await harness.answer("[[tokens=10 hang_after=3]]")
    assert (run.status, run.reason) == ("error", "timeout")
    assert "0.3 s" in run.error


async def test_agent_instructions_reach_the_model(harness: WorkerHarness):
    await Agent.objects.filter(slug="main").aupdate(instructions="Speak like a ship's cook.")
    await harness.answer("hello")
    assert "ship's cook" in str(harness.model.bodies[-1]["messages"][0])


async def test_disabled_agent_does_not_reply(harness: WorkerHarness):
    await Agent.objects.filter(slug="main").aupdate(enabled=False)
    run = await harness.answer("hello")
    assert (run.status, run.reason) == ("error", "not_found")
    assert "disabled" in run.error


async def test_denied_call_with_invalid_arguments_does_not_end_run(harness: WorkerHarness):
    run = await harness.answer('[[tool=launch args="{broken"]]')
    assert (run.status, run.rescues) == ("completed", 0)
    (call,) = calls_of(run)
    assert (call.status, call.refused_by) == ("refused", "toolset")


async def test_allowed_call_with_invalid_arguments_returns_error_to_model(harness: WorkerHarness):
    run = await harness.answer('[[tool=read args="{broken"]]')
    assert (run.status, run.rescues) == ("completed", 0)
    (call,) = calls_of(run)
    assert call.status == "failed"
    assert "could not be read" in call.result["content"][0]["text"]
