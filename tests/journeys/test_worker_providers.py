"""Models that are busy, broken or silent: the run ends with a clear error, or another attempt returns the whole text."""

import pytest

from agents.llm import retry
from clawsite.infra.reasons import Reason
from tests.harness.worker import WorkerHarness, events_of, phases_of, token_text, transcript_of, view_of


@pytest.fixture(autouse=True)
def short_delays(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_DELAY_S", 0.02)


@pytest.mark.parametrize(
    ("marker", "kind", "attempts"),
    [
        ("error=429", "rate_limit", 3),
        ("error=500", "unavailable", 3),
        ("error=401", "auth", 1),
        ("context_overflow", "context_overflow", 1),
        ("cut_after=3", "cut", 2),
        ("end_after=3", "cut", 2),
        ("empty", "empty", 1),
        ("delay_ms=10 fault_after=3 code=overloaded", "unavailable", 1),
    ],
)
async def test_permanent_model_failure_ends_run_with_clear_error(harness: WorkerHarness, marker, kind, attempts):
    run = await harness.answer(f"[[tokens=10 {marker}]]")
    assert (run.status, run.reason) == ("error", kind)
    assert run.error.startswith("the model did not answer: ")
    assert (run.error_reason["code"], Reason.from_json(run.error_reason).text) == ("run_error.model", run.error)
    assert len(harness.model.log) == attempts
    last = events_of(run)[-1]
    assert (last.stream, last.data["phase"], last.data["kind"], last.data["error"]) == ("lifecycle", "error", kind, run.error)


@pytest.mark.parametrize("marker", ["error=429", "error=500", "cut_after=3", "end_after=3"])
async def test_transient_model_failure_is_retried(harness: WorkerHarness, marker):
    run = await harness.answer(f"[[tokens=10 {marker} times=1]]")
    assert (run.status, transcript_of(run)[-1]) == ("completed", ("assistant", token_text(10)))
    assert phases_of(run) == ["accepted", "start", "retry", "end"]
    assert [text for _, text in view_of(run).messages] == [token_text(10)]


async def test_partial_text_of_failed_attempt_is_discarded(harness: WorkerHarness):
    run = await harness.answer("[[tokens=10 delay_ms=5 cut_after=6 times=1]]")
    shown = []
    for event in events_of(run):
        if event.stream == "assistant":
            shown.append("reset" if event.data.get("reset") else "final" if event.data.get("final") else event.data["attempt"])
    assert shown[0] == 1
    assert shown[-1] == "final"
    assert shown.count("reset") == 1
    assert set(shown[shown.index("reset") + 1 : -1]) == {2}


async def test_unresponsive_model_is_stopped_by_run_timeout(harness: WorkerHarness):
    run = await harness.answer("[[hang tag=silent]]", timeout_seconds=0.3)
    assert (run.status, run.reason) == ("error", "timeout")
    assert [role for role, _ in transcript_of(run)] == ["user"]
    await harness.model.record(lambda record: record["tag"] == "silent" and record.get("client_left"))


async def test_session_works_after_a_failed_run(harness: WorkerHarness):
    assert (await harness.answer("[[error=401]]")).status == "error"
    assert (await harness.answer("[[text=again]]")).status == "completed"


async def test_unreachable_model_server_is_reported(harness: WorkerHarness, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    run = await harness.answer("hello")
    assert (run.status, run.reason) == ("error", "unavailable")
    assert "127.0.0.1:9" in run.error


async def test_missing_api_key_is_named(harness: WorkerHarness, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")
    run = await harness.answer("hello")
    assert (run.status, run.reason) == ("error", "auth")
    assert "OPENAI_API_KEY" in run.error
