"""Tools whose database or disk doesn't respond, stopped by a person or by a timeout."""

import json
import threading
from dataclasses import replace

import pytest

from agents.tools import memory, message, sessions, sessions_send
from sessions_app.models import TranscriptEntry
from sessions_app.runs import lifecycle
from tests.harness.worker import WorkerHarness, calls_of, transcript_of
from tools_app.policy_store import policies
from tools_app.sources import tools as source_tools

# Tool, its arguments, and the database query that hangs.
ASKED = [
    ("sessions_list", {}, sessions, "_list_sessions"),
    ("sessions_history", {"session_key": "agent:main:main"}, sessions, "_read_history"),
    ("session_status", {}, sessions, "_session_facts"),
    ("agents_list", {}, sessions, "_list_agents"),
    ("message", {"message": "never said"}, message, "_find_target"),
    ("sessions_send", {"session_key": "agent:main:there", "message": "never said"}, sessions_send, "_find_target"),
    ("memory_get", {"path": "MEMORY.md"}, memory, "_read_lines"),
]
each_tool = pytest.mark.parametrize(("name", "arguments", "module", "question"), ASKED, ids=[tool for tool, *_ in ASKED])


@pytest.fixture
def everything(database):
    """Agent main may use every tool."""
    policies.save_policy(scope="agent", subject="main", profile="full")


@pytest.fixture
def hanging(monkeypatch, module, question):
    """A disk or database call that doesn't return until the test ends."""
    answers, asked = threading.Event(), threading.Event()
    ask = getattr(module, question)

    def slowly(*arguments):
        asked.set()
        answers.wait(20)
        return ask(*arguments)

    monkeypatch.setattr(module, question, slowly)
    yield asked
    answers.set()


def wish(name: str, arguments: dict) -> str:
    return f"[[tool={name} args={json.dumps(arguments)}]][[text=done]]"


@each_tool
async def test_running_call_can_be_aborted(harness: WorkerHarness, everything, hanging, eventually, name, arguments):
    run_pk = harness.send(wish(name, arguments))
    await eventually(hanging.is_set)
    lifecycle.request_abort(user=harness.user, session=harness.session)
    run = await harness.ended(run_pk)
    (row,) = calls_of(run)
    assert (run.status, row.status, row.result["details"]) == ("aborted", "failed", {"code": "stopped"})
    assert transcript_of(run)[-1] == ("toolResult", "stopped: the run ended (rpc) before this call did")


@each_tool
async def test_timed_out_call_is_stopped_and_run_continues(
    harness: WorkerHarness, everything, hanging, monkeypatch, name, arguments
):
    known = source_tools.load_tools().tools
    monkeypatch.setitem(known, name, replace(known[name], factory=replace(known[name].factory, timeout_s=0.1)))
    run = await harness.answer(wish(name, arguments))
    (row,) = calls_of(run)
    assert (run.status, row.status, row.result["details"]) == ("completed", "failed", {"code": "tool_timeout"})
    assert transcript_of(run)[-1] == ("assistant", "done")
    assert not TranscriptEntry.objects.filter(text__contains="never said", role="assistant").exists()
