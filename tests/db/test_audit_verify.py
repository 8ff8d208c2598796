"""Tampering as a database owner could: without triggers, row by row, or by rewriting the whole chain."""

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clawsite.cli import main
from clawsite.cli.command import CommandFailed
from clawsite.cli.doctor import database as checks_stored
from clawsite.infra import clock
from clawsite.infra.audit import anchor as audit_anchor
from clawsite.infra.audit import chain as audit_chain
from clawsite.infra.audit import log as audit_log
from clawsite.infra.audit import verify as audit_verify
from clawsite.infra.audit.chain import GENESIS, hash_link
from clawsite.infra.audit.triggers import ENTRY_TABLE, HEAD_TABLE, SEAL_TABLE
from clawsite.infra.audit.verify import TEXT_COLUMNS, verify
from clawsite.infra.models import AuditEntry, AuditHead, AuditSeal
from tests.harness import audit as audit_room
from tests.harness.audit import insert_entry, tamper

pytestmark = pytest.mark.dialect

SEALED = 10


@pytest.fixture(autouse=True)
def ids(database) -> list[int]:
    """Create a log of ten chained entries and return their IDs, in the order of the chain."""
    audit_room.clear_log()
    audit_log.record_all(
        audit_log.NewAuditEntry("call.allowed", subject=("tool", f"t{n}"), run=n, details={"n": n}) for n in range(SEALED)
    )
    audit_chain.seal_entries()
    assert verify().findings == []
    return list(AuditSeal.objects.order_by("position").values_list("entry_id", flat=True))


def found() -> list[tuple[str, int | None, int | None]]:
    return [(each.kind, each.position, each.entry) for each in verify().findings]


@pytest.mark.parametrize("column", ["at", *TEXT_COLUMNS, "details", "digest"])
def test_changed_column_is_detected(ids, column):
    value = {"at": connection.ops.adapt_datetimefield_value(clock.now()), "details": '{"n": 4, "more": 1}'}.get(column, "other")
    tamper(f"UPDATE {ENTRY_TABLE} SET {column} = %s WHERE id = %s", [value, ids[4]])
    assert found() == [("changed", 5, ids[4])]


def test_change_with_recomputed_digest_is_detected(ids):
    entry = AuditEntry.objects.get(pk=ids[4])
    texts = ["call.refused", *(getattr(entry, name) for name in TEXT_COLUMNS[1:])]
    forged = audit_log.compute_digest(entry.at, texts, entry.details)
    tamper(f"UPDATE {ENTRY_TABLE} SET action = 'call.refused', digest = %s WHERE id = %s", [forged, ids[4]])
    assert found() == [("changed", 5, ids[4])]
    # The change is also found if the seal is changed too, because the next seal doesn't match.
    seal = AuditSeal.objects.get(position=5)
    remade = hash_link(seal.previous, 5, ids[4], forged)
    tamper(f"UPDATE {SEAL_TABLE} SET digest = %s, hash = %s WHERE position = 5", [forged, remade])
    assert found() == [("changed", 6, ids[5])]


def test_deleted_entry_is_detected(ids):
    tamper(f"DELETE FROM {ENTRY_TABLE} WHERE id = %s", [ids[2]])
    assert found() == [("missing", 3, ids[2])]


def test_entry_deleted_with_its_seal_is_detected(ids):
    tamper(f"DELETE FROM {ENTRY_TABLE} WHERE id = %s", [ids[2]])
    tamper(f"DELETE FROM {SEAL_TABLE} WHERE entry_id = %s", [ids[2]])
    assert found() == [("missing", 3, None)]
    assert verify().findings[0].words == "position 3 is missing from the chain"


def test_deleted_range_is_reported_as_one_finding(ids):
    tamper(f"DELETE FROM {ENTRY_TABLE} WHERE id IN (%s, %s)", ids[2:4])
    tamper(f"DELETE FROM {SEAL_TABLE} WHERE entry_id IN (%s, %s)", ids[2:4])
    assert [each.words for each in verify().findings] == ["positions 3 to 4 are missing from the chain"]


def test_renumbered_seals_are_detected(ids):
    tamper(f"DELETE FROM {ENTRY_TABLE} WHERE id = %s", [ids[2]])
    tamper(f"DELETE FROM {SEAL_TABLE} WHERE position = 3")
    for position in range(4, SEALED + 1):
        tamper(f"UPDATE {SEAL_TABLE} SET position = %s WHERE position = %s", [position - 1, position])
    kinds = [kind for kind, _position, _entry in found()]
    assert kinds == ["reordered"] * 7 + ["cut"]


def test_deleted_seal_is_detected(ids):
    tamper(f"DELETE FROM {SEAL_TABLE} WHERE position = 3")
    assert ("missing", 3, None) in found()


def test_swapped_seals_are_detected(ids):
    with audit_room.triggers_disabled():
        for before, after in ((4, -4), (5, 4), (-4, 5)):
            audit_room.execute(f"UPDATE {SEAL_TABLE} SET position = %s WHERE position = %s", [after, before])
    assert found() == [("reordered", 4, ids[4]), ("reordered", 5, ids[3])]
    assert verify().findings[0].words == "the seal at position 4 belongs at 5"


def test_swapped_entry_contents_are_detected(ids):
    columns = ", ".join(audit_log.COLUMNS)
    with audit_room.triggers_disabled():
        audit_room.execute(f"CREATE TEMPORARY TABLE kept AS SELECT * FROM {ENTRY_TABLE} WHERE id IN (%s, %s)", ids[3:5])
        for here, there in (ids[3:5], ids[4:2:-1]):
            of_other = f"SELECT {columns} FROM kept WHERE id = %s"
            audit_room.execute(f"UPDATE {ENTRY_TABLE} SET ({columns}) = ({of_other}) WHERE id = %s", [there, here])
        audit_room.execute("DROP TABLE kept")
    assert found() == [("reordered", 4, ids[3]), ("reordered", 5, ids[4])]


def settle(ids) -> None:
    """Pretend that ten minutes have passed, so that entries before these are no longer awaited."""
    tamper(f"UPDATE {HEAD_TABLE} SET gaps = '[]'")
    assert AuditHead.objects.get().newest == ids[-1]


def test_backdated_entry_is_detected_and_never_sealed(ids):
    settle(ids)
    insert_entry(ids[0] - 1)
    assert audit_chain.seal_entries() == 0
    assert found() == [("inserted", None, ids[0] - 1)]


def test_replacement_of_deleted_entry_is_detected(ids):
    settle(ids)
    tamper(f"DELETE FROM {ENTRY_TABLE} WHERE id = %s", [ids[2]])
    insert_entry(ids[2])
    assert found() == [("changed", 3, ids[2])]


def test_wrong_entry_digest_is_detected_before_and_after_sealing(ids):
    insert_entry(None, digest="f" * 64)
    assert [each.kind for each in verify().findings] == ["changed"]
    audit_chain.seal_entries()
    assert [(each.kind, each.position) for each in verify().findings] == [("changed", SEALED + 1)]


def test_forged_seal_at_end_is_detected(ids):
    last = AuditSeal.objects.get(position=SEALED)
    insert_entry(None)
    entry = AuditEntry.objects.order_by("pk").last()
    forged = hash_link(last.hash, SEALED + 1, entry.pk, entry.digest)
    moment = connection.ops.adapt_datetimefield_value(clock.now())
    values = [SEALED + 1, entry.pk, entry.digest, last.hash, forged, moment]
    audit_room.execute(
        f"INSERT INTO {SEAL_TABLE} (position, entry_id, digest, previous, hash, sealed_at) VALUES (%s,%s,%s,%s,%s,%s)", values
    )
    assert found() == [("inserted", SEALED + 1, entry.pk)]


def cut(keep: int, *, head_too: bool) -> None:
    kept = AuditSeal.objects.get(position=keep)
    tamper(f"DELETE FROM {ENTRY_TABLE} WHERE id IN (SELECT entry_id FROM {SEAL_TABLE} WHERE position > %s)", [keep])
    tamper(f"DELETE FROM {SEAL_TABLE} WHERE position > %s", [keep])
    if head_too:
        tamper(f"UPDATE {HEAD_TABLE} SET position = %s, hash = %s, newest = %s", [keep, kept.hash, kept.entry_id])


def test_truncated_chain_is_detected_by_head(ids):
    cut(7, head_too=False)
    assert found() == [("cut", SEALED, None)]


def test_truncation_with_corrected_head_is_detected_only_by_anchor(ids, tmp_path):
    file = tmp_path / "anchors.jsonl"
    audit_anchor.append_anchor(file)
    cut(7, head_too=True)
    assert found() == []  # only anchors detect this
    findings = verify(audit_anchor.read_anchors(file)).findings
    assert [(each.kind, each.position) for each in findings] == [("cut", SEALED)]


def test_rewritten_chain_is_detected_only_by_anchor(ids, tmp_path):
    file = tmp_path / "anchors.jsonl"
    audit_anchor.append_anchor(file)
    entry = AuditEntry.objects.get(pk=ids[4])
    forged = audit_log.compute_digest(
        entry.at, ["call.refused", *(getattr(entry, name) for name in TEXT_COLUMNS[1:])], entry.details
    )
    with audit_room.triggers_disabled():
        audit_room.execute(f"UPDATE {ENTRY_TABLE} SET action = 'call.refused', digest = %s WHERE id = %s", [forged, ids[4]])
        previous = GENESIS
        for seal in AuditSeal.objects.order_by("position"):
            digest = forged if seal.entry_id == ids[4] else seal.digest
            made = hash_link(previous, seal.position, seal.entry_id, digest)
            values = [digest, previous, made, seal.position]
            audit_room.execute(f"UPDATE {SEAL_TABLE} SET digest = %s, previous = %s, hash = %s WHERE position = %s", values)
            previous = made
        audit_room.execute(f"UPDATE {HEAD_TABLE} SET hash = %s", [previous])
    assert found() == []
    findings = verify(audit_anchor.read_anchors(file)).findings
    assert [(each.kind, each.position) for each in findings] == [("rewritten", SEALED)]


def test_mismatched_head_is_detected(ids):
    tamper(f"UPDATE {HEAD_TABLE} SET hash = %s", ["f" * 64])
    assert [each.words for each in verify().findings] == ["the recorded head does not match the hash of position 10"]


def test_findings_are_counted_and_first_ones_listed(ids, monkeypatch):
    monkeypatch.setattr(audit_verify, "MAX_FINDINGS", 3)
    tamper(f"UPDATE {ENTRY_TABLE} SET actor_name = 'x'")
    report = verify()
    assert (len(report.findings), report.more) == (3, SEALED - 3)


def test_unsealed_tail_is_reported_without_finding(ids):
    audit_log.record("sign_in.ok")
    audit_log.record("sign_in.out")
    report = verify()
    assert (report.whole, report.sealed, report.unsealed) == (True, SEALED, 2)
    assert report.oldest_unsealed == AuditEntry.objects.get(action="sign_in.ok").at


def test_recent_entries_can_be_verified_alone(ids):
    assert verify(last=3).sealed == 3
    tamper(f"UPDATE {ENTRY_TABLE} SET action = 'sign_in.ok' WHERE id = %s", [ids[1]])
    assert verify(last=3).whole
    tamper(f"UPDATE {ENTRY_TABLE} SET action = 'sign_in.ok' WHERE id = %s", [ids[8]])
    assert [each.position for each in verify(last=3).findings] == [9]


def test_long_log_is_read_in_pages(ids, monkeypatch):
    """Two queries per page, and never more than one page in memory."""
    monkeypatch.setattr(audit_verify, "PAGE_SIZE", 4)
    with CaptureQueriesContext(connection) as queries:
        report = verify()
    assert (report.sealed, report.whole) == (SEALED, True)
    assert len(queries) <= 1 + 2 * 3 + 1 + 1 + 1
    tamper(f"DELETE FROM {SEAL_TABLE} WHERE position = 5")  # at the boundary of two pages
    assert ("missing", 5, None) in found()


# Deliberate faults that the checks above must detect.


@pytest.mark.parametrize("forgotten", ["previous", "position", "entry", "digest"])
def test_incomplete_seal_hash_is_detected(ids, monkeypatch, forgotten):
    def careless(previous: str, position: int, entry_id: int, digest: str) -> str:
        given = {"previous": previous, "position": position, "entry": entry_id, "digest": digest}
        return hash_link(**{{"entry": "entry_id"}.get(name, name): value for name, value in (given | {forgotten: 0}).items()})

    monkeypatch.setattr(audit_chain, "hash_link", careless)
    audit_log.record("sign_in.ok")
    audit_chain.seal_entries()
    assert [each.position for each in verify().findings] == [SEALED + 1]


def test_database_rejects_duplicate_seal_position(ids):
    """Insert the position twice, as two workers without the lock would."""
    audit_log.record("sign_in.ok")
    tamper(f"UPDATE {HEAD_TABLE} SET position = {SEALED - 1}")
    with pytest.raises(Exception, match=r"(?i)unique|append-only"):
        audit_chain.seal_entries()


def test_incomplete_digest_misses_column_change(ids, monkeypatch):
    monkeypatch.setattr(audit_verify, "_compute_digest", lambda row: row[1])
    tamper(f"UPDATE {ENTRY_TABLE} SET actor_name = 'somebody else' WHERE id = %s", [ids[4]])
    assert found() == []  # without the full digest, the change isn't detected


# Anchors and the command line


def test_anchor_is_added_only_when_due_and_new(ids, tmp_path, monkeypatch):
    file = tmp_path / "anchors.jsonl"
    first = audit_anchor.append_anchor(file, only_if_due=True)
    assert first.position == SEALED
    assert audit_anchor.append_anchor(file) is None  # no new entries
    audit_log.record("sign_in.ok")
    audit_chain.seal_entries()
    assert audit_anchor.append_anchor(file, only_if_due=True) is None  # not due yet
    later = clock.now() + timedelta(minutes=11)
    monkeypatch.setattr(clock, "now", lambda: later)
    second = audit_anchor.append_anchor(file, only_if_due=True)
    assert second.position == SEALED + 1
    assert list(audit_anchor.read_anchors(file)) == [first, second]
    assert verify(audit_anchor.read_anchors(file)).anchors == 2
    assert file.stat().st_mode & 0o077 == 0


def test_truncated_anchor_record_does_not_corrupt_next(ids, tmp_path):
    file = tmp_path / "anchors.jsonl"
    file.write_text('{"position": 3, "ha')
    audit_anchor.append_anchor(file)
    with pytest.raises(audit_anchor.BadAnchor, match="line 1"):
        list(audit_anchor.read_anchors(file))
    assert json.loads(file.read_text().splitlines()[1])["position"] == SEALED


def test_empty_log_gets_no_anchor(tmp_path):
    audit_room.clear_log()
    assert audit_anchor.append_anchor(tmp_path / "anchors.jsonl") is None


def test_verify_command_reports_an_intact_log(ids, capsys):
    main.run(["audit", "verify"])
    head = AuditHead.objects.get()
    assert f"The audit log is intact: 10 chained entries, 0 anchors; head 10 {head.hash}" in capsys.readouterr().out


def test_verify_command_exits_with_1_and_lists_findings(ids, capsys, tmp_path, settings):
    file = tmp_path / "anchors.jsonl"
    main.run(["audit", "anchor", str(file)])
    settings.AUDIT_ANCHOR = str(file)  # used unless another file is given
    cut(7, head_too=True)
    capsys.readouterr()
    assert main.run(["audit", "verify", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["whole"], told["position"], told["anchors"]) == (False, 7, 1)
    assert [(each["kind"], each["position"]) for each in told["findings"]] == [("cut", SEALED)]
    assert main.run(["audit", "verify"]) == 1
    assert "cut        position 10, anchored at" in capsys.readouterr().out


def test_verify_command_reports_unreadable_anchors(ids, tmp_path):
    with pytest.raises(CommandFailed, match="cannot read the anchors"):
        main.run(["audit", "verify", "--anchor", str(tmp_path / "none")])
    (tmp_path / "other").write_text("hello\n")
    with pytest.raises(CommandFailed, match="is not a valid anchor"):
        main.run(["audit", "verify", "--anchor", str(tmp_path / "other")])


def test_export_writes_json_lines_with_chain_positions_and_is_recorded(ids, capfdbinary):
    main.run(["audit", "export", "--since", "2020-01-01"])
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [line["id"] for line in lines[:SEALED]] == ids
    assert [line["position"] for line in lines[:SEALED]] == list(range(1, SEALED + 1))
    assert lines[0]["previous"] == GENESIS
    assert lines[0]["hash"] == hash_link(GENESIS, 1, ids[0], lines[0]["digest"])
    assert lines[0]["details"] == {"n": 0}
    assert (lines[-1]["action"], lines[-1]["position"]) == ("audit.exported", None)
    assert lines[-1]["actor"]["kind"] == "system"
    assert lines[-1]["actor"]["name"].startswith("claw audit (")
    main.run(["audit", "export", "--since", "2999-01-01T00:00+00:00"])
    assert capfdbinary.readouterr().out == b""


def test_doctor_checks_end_of_log(ids, settings, tmp_path, monkeypatch):
    assert checks_stored.check_audit(settings).level == "ok"
    audit_log.record("sign_in.ok")
    assert checks_stored.check_audit(settings).level == "ok"
    later = clock.now() + timedelta(seconds=90)
    with monkeypatch.context() as patched:
        patched.setattr(clock, "now", lambda: later)
        waiting = checks_stored.check_audit(settings)
    assert (waiting.level, "entries not chained yet: 1" in waiting.text) == ("warn", True)
    settings.AUDIT_ANCHOR = str(tmp_path / "anchors.jsonl")
    assert checks_stored.check_audit(settings).level == "warn"  # the file doesn't exist
    audit_anchor.append_anchor(tmp_path / "anchors.jsonl")
    assert "1 anchors match" in checks_stored.check_audit(settings).text
    with audit_room.triggers_disabled():
        assert "no longer protects" in checks_stored.check_audit(settings).text
    tamper(f"DELETE FROM {ENTRY_TABLE} WHERE id = %s", [ids[5]])
    gone = checks_stored.check_audit(settings)
    assert (gone.level, gone.text) == ("fail", f"entry {ids[5]}, sealed at position 6, is missing")
