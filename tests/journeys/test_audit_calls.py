"""Tool calls in the audit log: every verdict in the turn's own transaction, how each call ended, and no user content."""

import pytest
from django.db.backends.signals import connection_created

from clawsite.infra import db
from clawsite.infra.audit.triggers import ENTRY_TABLE
from clawsite.infra.audit.verify import verify
from clawsite.infra.models import AuditEntry, AuditSeal
from sessions_app.models import ToolCall
from sessions_app.run_request import Invocation, RunRequest
from sessions_app.runs import tool_calls
from tests.harness import audit as audit_room
from tests.harness.worker import WorkerHarness, calls_of


@pytest.fixture(autouse=True)
def log(database):
    audit_room.clear_log()


def entries_of(run) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(run=str(run.pk)).order_by("pk"))


WRITE = '[[tool=write args={"path":"secret-plans.txt","content":"attack-at-dawn"}]]'


async def test_tool_call_is_recorded_at_decision_and_end(harness: WorkerHarness):
    run = await harness.answer(f"{WRITE} [[text=done]]")
    allowed, ended = entries_of(run)
    (call,) = calls_of(run)
    assert (allowed.action, allowed.actor_kind, allowed.actor_id) == ("call.allowed", "agent", "main")
    assert (allowed.subject_kind, allowed.subject_id) == ("tool", "write")
    assert (allowed.session, allowed.run) == (str(run.session_id), str(run.pk))
    assert allowed.details == {"call": call.call_id, "for": harness.user.pk, "layer": "profile", "policy": call.policy_version}
    assert (ended.action, ended.details["outcome"]) == ("call.ended", "finished")
    stored = str(list(AuditEntry.objects.values()))
    assert "secret-plans" not in stored
    assert "attack-at-dawn" not in stored


async def test_denial_names_its_layer_and_has_no_end_entry(harness: WorkerHarness):
    run = await harness.answer('[[tool=exec args={"command":"rm -rf attack-at-dawn"}]] [[text=pity]]')
    (refused,) = entries_of(run)
    (call,) = calls_of(run)
    assert (refused.action, refused.subject_id) == ("call.refused", "exec")
    assert refused.details["layer"] == call.refused_by != ""
    assert "attack-at-dawn" not in str(list(AuditEntry.objects.values()))


async def test_failed_call_is_recorded_as_ended(harness: WorkerHarness):
    run = await harness.answer('[[tool=read args={"path":"not-there"}]] [[text=pity]]')
    assert [(each.action, each.details.get("outcome")) for each in entries_of(run)] == [
        ("call.allowed", None),
        ("call.ended", ToolCall.Status.FAILED.value),
    ]


async def test_direct_tool_call_names_the_user(harness: WorkerHarness):
    request = RunRequest(Invocation("write", {"path": "a.txt", "content": "hi"}))
    run = await harness.answer("Run the tool `write`", request=request)
    told = [(each.action, each.actor_kind, each.actor_name) for each in entries_of(run)]
    assert told == [(action, "person", harness.user.username) for action in ("call.allowed", "call.ended")]


@pytest.fixture
def inserts():
    """Collect every INSERT into the audit log on connections opened since."""
    seen: list[str] = []

    def watch(execute, sql, params, many, context):
        if sql.startswith(f"INSERT INTO {ENTRY_TABLE}"):
            seen.append(sql)
        return execute(sql, params, many, context)

    def connected(connection, **_):
        connection.execute_wrappers.append(watch)

    connection_created.connect(connected)
    yield seen
    connection_created.disconnect(connected)


async def test_decisions_of_a_turn_are_one_insert(harness: WorkerHarness, inserts):
    await harness.close()
    db.close()
    harness.open()
    several = " ".join(f'[[tool=write args={{"path":"{n}","content":"{n}"}}{" parallel=1" if n else ""}]]' for n in range(3))
    run = await harness.answer(f"{several} [[text=done]]")
    actions = [entry.action for entry in entries_of(run)]
    assert actions[:3] == ["call.allowed"] * 3
    assert len(inserts) == 1 + actions.count("call.ended")


async def test_decision_rolled_back_is_not_recorded(harness: WorkerHarness, monkeypatch):
    """The entry is part of the decision's transaction: here the decision fails after it was written."""
    record = tool_calls.record_decisions

    def then_fail(*args):
        record(*args)
        raise RuntimeError("the power went out")

    monkeypatch.setattr(tool_calls, "record_decisions", then_fail)
    run = await harness.answer(f"{WRITE} [[text=done]]")
    assert run.status == "error"
    assert calls_of(run) == []
    assert entries_of(run) == []


async def test_worker_seals_audit_entries(harness: WorkerHarness, eventually):
    run = await harness.answer(f"{WRITE} [[text=done]]")
    ids = {entry.pk for entry in entries_of(run)}
    await eventually(lambda: ids <= set(AuditSeal.objects.values_list("entry_id", flat=True)))
    assert verify().findings == []


async def test_stopping_worker_seals_all_entries_and_writes_anchors(harness: WorkerHarness, settings, tmp_path, eventually):
    settings.AUDIT_SEAL_SECONDS = 60.0
    settings.AUDIT_ANCHOR = str(tmp_path / "anchors.jsonl")
    await harness.close()
    harness.open()
    await harness.answer(f"{WRITE} [[text=done]]")
    await harness.close()
    assert verify().unsealed == 0
    harness.open()
    await eventually((tmp_path / "anchors.jsonl").exists)
    await eventually(lambda: (tmp_path / "anchors.jsonl").read_text().count("\n") == 1)
