"""infra/db.py: one writer thread, group commits, and failures that don't affect other operations."""

import asyncio
import threading

import pytest
from django.db import DatabaseError, OperationalError, connection

from clawsite.infra import db
from clawsite.infra.errors import Unavailable
from sessions_app.models import Lane

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]


def make(name):
    Lane.objects.create(name=name, max_running=1)
    return connection.savepoint_ids == [] and threading.current_thread().name


async def test_writes_share_one_thread_and_reads_use_others():
    writers = {await db.write(make, name) for name in ("a", "b", "c")}
    readers = {await db.read(lambda: threading.current_thread().name) for _ in range(3)}
    assert writers == {"db-write"}
    assert all(name.startswith("db-read") for name in readers)


async def test_concurrent_operations_are_committed_together():
    commits = []
    gate = threading.Event()
    first = asyncio.create_task(db.write(gate.wait))
    await asyncio.sleep(0)

    def note(name):
        from django.db import transaction

        transaction.on_commit(
            lambda: commits.append(list(Lane.objects.filter(name__startswith="g").values_list("name", flat=True)))
        )
        make(name)

    rest = [asyncio.create_task(db.write(note, f"g{n}")) for n in range(3)]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, *rest)
    assert [sorted(seen) for seen in commits] == [["g0", "g1", "g2"]] * 3


async def test_failing_operation_is_excluded_and_others_commit():
    def fail():
        make("bad")
        raise ValueError("as told")

    results = await asyncio.gather(
        db.write(make, "good1"), db.write(fail), db.write(make, "main"), db.write(make, "good2"), return_exceptions=True
    )
    assert isinstance(results[1], ValueError)
    assert isinstance(results[2], DatabaseError)  # the lane main exists
    assert set(Lane.objects.values_list("name", flat=True)) >= {"good1", "good2"}
    assert not Lane.objects.filter(name="bad").exists()


async def test_operations_of_one_session_keep_their_order():
    order = []
    gate = threading.Event()
    first = asyncio.create_task(db.write(gate.wait))
    await asyncio.sleep(0)
    rest = [asyncio.create_task(db.write(order.append, item, key=item[0])) for item in ("b1", "a1", "b2", "a2")]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, *rest)
    assert order == ["a1", "a2", "b1", "b2"]


async def test_database_error_is_raised_with_clear_message():
    def broken():
        raise OperationalError("attempt to write a readonly database")

    with pytest.raises(Unavailable, match="read-only"):
        await db.write(broken)
    with pytest.raises(Unavailable, match="read-only"):
        await db.read(broken)
    assert await db.read(Lane.objects.count) >= 4  # the next read works


async def test_threads_restart_after_close():
    await db.write(make, "before")
    await asyncio.to_thread(db.close)
    await db.write(make, "after")
    assert Lane.objects.filter(name__in=["before", "after"]).count() == 2
