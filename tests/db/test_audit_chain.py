"""Chaining: every committed entry gets one position in one chain, with any number of workers."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from clawsite.infra import clock
from clawsite.infra.audit import chain as audit_chain
from clawsite.infra.audit import log as audit_log
from clawsite.infra.audit.chain import GENESIS, hash_link
from clawsite.infra.audit.triggers import HEAD_TABLE, SEAL_TABLE
from clawsite.infra.audit.verify import verify
from clawsite.infra.models import AuditEntry, AuditHead, AuditSeal
from tests.harness import audit as audit_room
from tests.harness.audit import insert_entry

pytestmark = pytest.mark.dialect


@pytest.fixture(autouse=True)
def empty_log(database):
    audit_room.clear_log()


def record(count: int) -> None:
    audit_log.record_all(audit_log.NewAuditEntry("call.allowed", subject=("tool", n)) for n in range(count))


def test_each_seal_links_to_previous_seal():
    record(3)
    assert audit_chain.seal_entries() == 3
    seals = list(AuditSeal.objects.order_by("position"))
    assert [seal.position for seal in seals] == [1, 2, 3]
    assert [seal.entry_id for seal in seals] == list(AuditEntry.objects.order_by("pk").values_list("pk", flat=True))
    previous = GENESIS
    for seal in seals:
        assert seal.previous == previous
        assert seal.digest == AuditEntry.objects.get(pk=seal.entry_id).digest
        assert seal.hash == hash_link(previous, seal.position, seal.entry_id, seal.digest)
        previous = seal.hash
    assert audit_chain.read_head() == audit_chain.ChainHead(3, previous)


def test_sealing_is_idempotent_and_writes_nothing_when_idle():
    record(2)
    assert audit_chain.has_unsealed()
    assert audit_chain.seal_entries() == 2
    assert not audit_chain.has_unsealed()
    with CaptureQueriesContext(connection) as queries:
        assert audit_chain.seal_entries() == 0
    assert not any(query["sql"].startswith(("INSERT", "UPDATE")) for query in queries)


def test_backlog_is_sealed_in_bounded_batches():
    record(25)
    assert [audit_chain.seal_entries(10), audit_chain.seal_entries(10), audit_chain.seal_entries(10)] == [10, 10, 5]
    assert verify().findings == []
    assert verify().sealed == 25


def test_uncommitted_entry_is_not_sealed():
    with transaction.atomic():
        record(1)
        found: list[int] = []
        if connection.vendor == "postgresql":  # SQLite has one writer, so there is no concurrent transaction
            in_thread(lambda: found.append(audit_chain.seal_entries()))
            assert found == [0]
        transaction.set_rollback(True)
    assert audit_chain.seal_entries() == 0


def in_thread(work) -> None:
    def body() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_late_committed_entry_is_sealed_later():
    """On PostgreSQL, the lower of two IDs can become visible later."""
    if connection.vendor != "postgresql":
        record(1)
        assert audit_chain.seal_entries() == 1
        return
    with transaction.atomic():
        audit_log.record("call.allowed", subject=("tool", "late"))

        def meanwhile() -> None:
            audit_log.record("call.allowed", subject=("tool", "early"))
            assert audit_chain.seal_entries() == 1

        in_thread(meanwhile)
    assert audit_chain.seal_entries() == 1
    order = [AuditEntry.objects.get(pk=seal.entry_id).subject_id for seal in AuditSeal.objects.order_by("position")]
    assert order == ["early", "late"]
    assert AuditEntry.objects.order_by("pk").first().subject_id == "late"
    assert verify().findings == []


def test_concurrent_sealers_seal_each_entry_once():
    record(300)
    barrier, faults = threading.Barrier(4), []

    def sealer() -> None:
        try:
            barrier.wait(30)
            while audit_chain.has_unsealed():
                audit_chain.seal_entries(7)
        except Exception as error:
            faults.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=sealer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert faults == []
    assert AuditSeal.objects.count() == 300
    report = verify()
    assert (report.sealed, report.unsealed, report.findings) == (300, 0, [])


def test_sealer_does_not_wait_for_another_sealer():
    if connection.vendor != "postgresql":
        return  # SQLite has one writer, so all others wait
    record(1)
    sealed: list[int] = []
    with transaction.atomic():
        AuditHead.objects.select_for_update().get()
        in_thread(lambda: sealed.append(audit_chain.seal_entries()))
    assert sealed == [0]
    assert audit_chain.seal_entries() == 1


@pytest.fixture
def base() -> int:
    """Set the highest known ID, so that a test can choose IDs as if each entry were committed when it is inserted."""
    record(1)
    highest = AuditEntry.objects.get().pk
    audit_room.clear_log()
    audit_room.tamper(f"UPDATE {HEAD_TABLE} SET newest = %s", [highest])
    return highest


def gaps_after(base: int) -> list[tuple[int, int]]:
    return [(first - base, last - base) for first, last, _since in AuditHead.objects.get().gaps]


def test_skipped_ids_stay_open_as_gaps(base):
    insert_entry(base + 5)
    insert_entry(base + 9)
    audit_chain.seal_entries()
    assert gaps_after(base) == [(1, 4), (6, 8)]
    for away in (2, 6, 8, 10):
        insert_entry(base + away)
        assert audit_chain.has_unsealed()
    assert verify().findings == []
    audit_chain.seal_entries()
    assert gaps_after(base) == [(1, 1), (3, 4), (7, 7)]
    assert [seal.entry_id - base for seal in AuditSeal.objects.order_by("position")] == [5, 9, 2, 6, 8, 10]
    assert verify().findings == []
    assert not audit_chain.has_unsealed()


def test_gaps_are_given_up_after_ten_minutes(base, monkeypatch):
    insert_entry(base + 3)
    audit_chain.seal_entries()
    later = clock.now() + timedelta(minutes=11)
    with monkeypatch.context() as patched:
        patched.setattr(clock, "now", lambda: later)
        insert_entry(base + 1)
        insert_entry(base + 4)
        audit_chain.seal_entries()  # no pass ran in between, so existing entries are chained first
    assert AuditSeal.objects.count() == 3
    assert gaps_after(base) == []
    insert_entry(base + 2)
    assert audit_chain.seal_entries() == 0
    assert [(each.kind, each.entry) for each in verify().findings] == [("inserted", base + 2)]


def test_gaps_are_kept_while_backlog_remains(base, monkeypatch):
    for away in (3, 4, 5):
        insert_entry(base + away)
    audit_chain.seal_entries(1)
    later = clock.now() + timedelta(minutes=11)
    monkeypatch.setattr(clock, "now", lambda: later)
    audit_chain.seal_entries(1)
    assert gaps_after(base) == [(1, 2)]
    audit_chain.seal_entries(2)
    assert gaps_after(base) == []


def test_unsealed_check_costs_two_queries():
    record(50)
    audit_chain.seal_entries()
    with CaptureQueriesContext(connection) as queries:
        assert not audit_chain.has_unsealed()
    assert len(queries) == 2
    assert SEAL_TABLE not in " ".join(query["sql"] for query in queries)


def test_empty_log_is_intact():
    report = verify()
    assert (report.whole, report.sealed, report.unsealed, report.position) == (True, 0, 0, 0)
