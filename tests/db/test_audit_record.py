"""Writing the audit log: what an entry contains, what it never contains, and that it can't be changed."""

import datetime as dt
from hashlib import sha256

import orjson
import pytest
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from clawsite.infra import clock
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import chain as audit_chain
from clawsite.infra.audit import log as audit_log
from clawsite.infra.audit import triggers as audit_triggers
from clawsite.infra.audit.actions import ACTIONS, UnknownAction
from clawsite.infra.audit.actor import SYSTEM, Actor
from clawsite.infra.audit.triggers import ENTRY_TABLE, HEAD_TABLE, SEAL_TABLE
from clawsite.infra.audit.verify import verify
from clawsite.infra.models import AppendOnly, AuditEntry, AuditSeal
from tests.harness import audit as audit_room
from tools_app.exec.gate.shell.line import MAX_LINE_BYTES

pytestmark = pytest.mark.dialect


@pytest.fixture(autouse=True)
def empty_log(database):
    audit_room.clear_log()


def test_entry_has_every_field():
    before = clock.now()
    audit_log.record(
        "grant.made",
        actor=Actor("person", "7", "ada"),
        subject=("grant", 12),
        session="0b5c",
        run=34,
        scope="session",
        uses=3,
        always=False,
        paths=["/bin/ls"],
    )
    entry = AuditEntry.objects.get()
    assert before <= entry.at <= clock.now()
    assert (entry.action, entry.actor_kind, entry.actor_id, entry.actor_name) == ("grant.made", "person", "7", "ada")
    assert (entry.subject_kind, entry.subject_id, entry.session, entry.run) == ("grant", "12", "0b5c", "34")
    assert entry.details == {"scope": "session", "uses": 3, "always": False, "paths": ["/bin/ls"]}
    assert len(entry.digest) == 64


def test_unknown_action_raises_and_records_nothing():
    with pytest.raises(UnknownAction, match=r"call\.alowed"):
        audit_log.record_all([audit_log.NewAuditEntry("call.allowed", SYSTEM), audit_log.NewAuditEntry("call.alowed", SYSTEM)])
    assert not AuditEntry.objects.exists()


def test_every_action_fits_its_column():
    assert max(map(len, ACTIONS)) <= 40
    audit_log.record_all(audit_log.NewAuditEntry(action) for action in ACTIONS)
    assert AuditEntry.objects.count() == len(ACTIONS)


def test_rolled_back_transaction_leaves_no_audit_entry():
    with transaction.atomic():
        audit_log.record("command.started")
        transaction.set_rollback(True)
    assert not AuditEntry.objects.exists()


def test_many_calls_are_recorded_in_one_statement():
    entries = [
        audit_log.NewAuditEntry("call.allowed", acting.actor_for_agent("main"), ("tool", f"t{n}"), details={"policy": n})
        for n in range(20)
    ]
    with CaptureQueriesContext(connection) as queries:
        audit_log.record_all(entries)
    assert len(queries) == 1
    assert AuditEntry.objects.count() == 20
    assert len(set(AuditEntry.objects.values_list("at", flat=True))) == 1


def test_empty_batch_executes_no_statement():
    with CaptureQueriesContext(connection) as queries:
        audit_log.record_all([])
    assert len(queries) == 0


def test_actor_defaults_to_current_actor():
    audit_log.record("settings.changed")
    with acting.acting_as(lambda: Actor("system", name="claw policy (root)")):
        audit_log.record("settings.changed")
    audit_log.record("settings.changed")
    assert list(AuditEntry.objects.order_by("pk").values_list("actor_name", flat=True)) == ["", "claw policy (root)", ""]


ODD = {
    "fraction": 0.1,
    "huge": 10**30,
    "float": 1e22,
    "nothing": None,
    "nul": "a\0b",
    "half": "\ud800",
    "chinese": "你好",
    "moment": dt.datetime(2026, 1, 31, tzinfo=dt.UTC),
    "set": {"b", "a"},
    "nested": {"a": {"b": [1, {"c": True}]}},
    7: "a key that is no text",
}


def test_recorded_entry_matches_its_digest():
    audit_log.record_all([audit_log.NewAuditEntry("settings.changed", Actor("person", "1", "a\0\ud800b"), details=ODD)])
    assert verify().unsealed == 1
    assert verify().findings == []
    audit_chain.seal_entries()
    assert verify().findings == []
    assert AuditEntry.objects.get().details["set"] == ["a", "b"]


@pytest.mark.parametrize(
    "details",
    [
        {"text": "x" * 1_000_000},
        {"list": list(range(10_000))},
        {str(n): n for n in range(10_000)},
        {"many": {str(n): "y" * 5_000 for n in range(49)}},
        {"deep": [[[[[[[[["bottom"]]]]]]]]]},
    ],
)
def test_details_have_size_limit(details):
    audit_log.record("settings.changed", subject=("s" * 500, "t" * 500), session="u" * 500, **details)
    entry = AuditEntry.objects.get()
    assert len(str(entry.details)) < 1.2 * audit_log.MAX_DETAILS_BYTES
    assert verify().findings == []


@pytest.mark.parametrize("filler", ["a", "\n", "é"])
def test_long_command_is_stored_in_full(filler):
    """The command is not shortened, whatever the size of the other details."""
    line = f"echo {filler * ((MAX_LINE_BYTES - 20) // len(filler.encode()))}; rm -rf /"
    assert MAX_LINE_BYTES - 8 <= len(line.encode()) <= MAX_LINE_BYTES
    audit_log.record("command.started", line=line, plan="p" * 64)
    audit_log.record("approval.decided", line=line, many={str(n): "y" * 5_000 for n in range(49)})
    assert [entry.details["line"] for entry in AuditEntry.objects.all()] == [line, line]
    audit_chain.seal_entries()
    assert verify().findings == []


def test_long_command_with_secrets_is_stored_in_full():
    audit_log.record("command.started", line="token=abcdef " * 1_200 + "; rm -rf /")
    assert AuditEntry.objects.get().details["line"].endswith("; rm -rf /")


def test_truncated_value_shows_original_length_and_hash():
    reason, key, name, listed = "why " * 1_000 + "the end", "k" * 300, "n" * 400, [f"{n}" * 400 for n in range(60)]
    audit_log.record("panic.stopped", subject=("agent", name), reason=reason, nested={key: 1}, token=f"claw_{'0' * 60} " * 100)
    audit_log.record("settings.changed", listed=listed, line="ls")
    first, second = AuditEntry.objects.order_by("pk")

    def size(text):
        return f"{len(text)} characters, sha256 {sha256(text.encode()).hexdigest()}"

    assert first.details["reason"] == f"{reason[:2000]}… [cut: {size(reason)}]"
    assert first.details["nested"] == {f"{'k' * 100}… [cut: {size(key)}]": 1}
    assert (first.subject_id, first.details["cut_subject_id"]) == ("n" * 128, size(name))
    assert first.details["token"] == "[redacted] " * 100  # after redaction it is short enough
    whole = orjson.dumps({"listed": [*listed[:50], "… and 10 more"]}).decode()
    assert second.details == {"line": "ls", "cut": size(whole), "begins": whole[:2000]}
    assert verify().findings == []


def test_truncated_list_shows_number_of_omitted_items():
    audit_log.record("permissions.changed", permissions=[f"p{n}" for n in range(94)])
    assert AuditEntry.objects.get().details["permissions"][-1] == "… and 44 more"


def test_secrets_are_redacted(settings):
    settings.GATEWAY_TOKEN = "the-gateway-token-itself"
    audit_log._secrets.cache_clear()
    try:
        audit_log.record(
            "command.started",
            actor=Actor("person", "1", "ada"),
            subject=("command", "curl -H 'Authorization: Bearer abcdef123456'"),
            line="git push https://ada:hunter2hunter2@example.org && echo claw_1234abcd_verysecretindeed",
            password="correct-horse-battery",
            nested={"api_key": "0123456789abcdef"},
            listed=["the-gateway-token-itself"],
        )
    finally:
        audit_log._secrets.cache_clear()
    stored = str(AuditEntry.objects.values().get())
    for secret in ("abcdef123456", "hunter2", "verysecret", "correct-horse", "0123456789abcdef", "the-gateway-token"):
        assert secret not in stored
    assert stored.count("[redacted]") == 6
    assert "git push https://ada:" in stored


def test_models_reject_every_change():
    audit_log.record("sign_in.ok")
    audit_chain.seal_entries()
    for model in (AuditEntry, AuditSeal):
        row = model.objects.get()
        for change in (
            row.save,
            row.delete,
            model().save,
            model.objects.create,
            lambda model=model: model.objects.update(digest="x"),
            lambda model=model: model.objects.all().delete(),
            lambda model=model, row=row: model.objects.bulk_create([row]),
            lambda model=model, row=row: model.objects.bulk_update([row], ["digest"]),
        ):
            with pytest.raises(AppendOnly):
                change()


CHANGES = [
    f"UPDATE {ENTRY_TABLE} SET action = 'sign_in.out'",
    f"UPDATE {ENTRY_TABLE} SET at = at",
    f"DELETE FROM {ENTRY_TABLE}",
    f"UPDATE {SEAL_TABLE} SET hash = 'x'",
    f"DELETE FROM {SEAL_TABLE}",
    f"DELETE FROM {HEAD_TABLE}",
    f"UPDATE {HEAD_TABLE} SET position = 0",
    f"UPDATE {HEAD_TABLE} SET newest = -1",
]
ONLY = {
    "sqlite": [
        f"INSERT OR REPLACE INTO {ENTRY_TABLE} SELECT * FROM {ENTRY_TABLE}",
        f"INSERT OR REPLACE INTO {SEAL_TABLE} SELECT * FROM {SEAL_TABLE}",
        f"UPDATE OR REPLACE {ENTRY_TABLE} SET id = 1",
    ],
    "postgresql": [
        f"TRUNCATE {ENTRY_TABLE}",
        f"TRUNCATE {SEAL_TABLE}",
        f"TRUNCATE {HEAD_TABLE}",
        f"INSERT INTO {ENTRY_TABLE} SELECT * FROM {ENTRY_TABLE} ON CONFLICT (id) DO UPDATE SET action = 'x'",
    ],
}


def test_database_rejects_every_change():
    audit_log.record("sign_in.ok")
    audit_chain.seal_entries()
    before = (list(AuditEntry.objects.values()), list(AuditSeal.objects.values()))
    for change in [*CHANGES, *ONLY[connection.vendor]]:
        with pytest.raises(DatabaseError, match=audit_triggers.ERROR_MESSAGE):
            audit_room.execute(change)
    assert (list(AuditEntry.objects.values()), list(AuditSeal.objects.values())) == before
    if connection.vendor == "postgresql":  # sessions in the replica role don't fire ordinary triggers
        with pytest.raises(DatabaseError, match=audit_triggers.ERROR_MESSAGE), transaction.atomic():
            audit_room.execute("SET LOCAL session_replication_role = replica")
            audit_room.execute(f"DELETE FROM {ENTRY_TABLE}")


def test_missing_triggers_are_detected_and_restored():
    assert audit_triggers.find_missing_triggers() == []
    with audit_room.triggers_disabled():
        assert len(audit_triggers.find_missing_triggers()) >= 8
        audit_room.execute(f"DELETE FROM {ENTRY_TABLE}")  # without the triggers the change succeeds, so they are what prevents it
    assert audit_triggers.find_missing_triggers() == []


def test_lost_head_is_rebuilt_from_seals():
    audit_log.record("sign_in.ok")
    audit_chain.seal_entries()
    head = audit_chain.read_head()
    audit_room.tamper(f"DELETE FROM {HEAD_TABLE}")
    assert audit_chain.read_head() == head
