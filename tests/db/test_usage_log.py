"""A session's last messages with the usage of each."""

import pytest

from sessions_app.events.journal import NewEntry
from sessions_app.models import Run
from sessions_app.reports import usage as usage_reports
from sessions_app.runs import queue
from sessions_app.runs.lifecycle import accept_run
from sessions_app.sessions.service import reset_session
from sessions_app.transcript import rewinds

pytestmark = pytest.mark.dialect

USED = {"input": 30, "output": 12, "cacheRead": 4, "costMicroUsd": 1_500}


@pytest.fixture
def talk(user, make_session):
    """A question, an answer that calls a tool, its result, and the last answer."""
    session = make_session(user)
    accept_run(user=user, session=session, run_id="k1", prompt="what is in it?")
    asked = [{"type": "text", "text": "I look."}, {"type": "toolCall", "id": "t1", "name": "read", "arguments": {"path": "a"}}]
    entries = [
        NewEntry("message", "assistant", asked, "I look.", "m1", {"usage": USED}),
        NewEntry("tool_result", "toolResult", [{"type": "text", "text": "x" * 5_000}], "x" * 5_000, "m2", {"toolCallId": "t1"}),
        NewEntry("message", "assistant", [], "Much.", "m3", {"usage": {"input": 1, "output": 1, "costMicroUsd": None}}),
    ]
    claimed = queue.claim_runs("w1", 1).runs[0]
    queue.write_step(claimed, to=Run.Status.COMPLETED, reason="stop", entries=entries)
    session.refresh_from_db()
    return session


def test_usage_log_entries_have_role_and_usage(talk):
    question, call, result, answer = usage_reports.read_usage_log(talk, 10)
    assert (question["role"], question["content"], "tokens" in question) == ("user", "what is in it?", False)
    assert call == {**call, "role": "assistant", "content": "I look.\n[Tool: read]", "tokens": 42, "cost": 0.0015}
    assert (result["role"], result["content"]) == ("toolResult", "x" * usage_reports.MAX_CHARACTERS)
    assert (answer["content"], answer["tokens"], "cost" in answer) == ("Much.", 2, False)
    assert question["timestamp"] <= answer["timestamp"]


def test_usage_log_keeps_newest_entries_within_limits(talk, monkeypatch):
    assert [entry["content"] for entry in usage_reports.read_usage_log(talk, 1)] == ["Much."]
    monkeypatch.setattr(usage_reports, "MAX_REPLY_BYTES", 500)
    assert [entry["content"] for entry in usage_reports.read_usage_log(talk, 10)] == ["Much."]


def test_usage_log_excludes_rewound_and_reset_messages(user, talk):
    accept_run(user=user, session=talk, run_id="k2", prompt="and now?")
    queue.write_step(queue.claim_runs("w1", 1).runs[0], to=Run.Status.COMPLETED, reason="stop")
    second = talk.entries.get(text="and now?").message_id
    rewinds.rewind_before(user, talk, second)
    assert [entry["content"] for entry in usage_reports.read_usage_log(talk, 1)] == ["Much."]
    assert usage_reports.read_usage_log(reset_session(user, talk), 10) == []
