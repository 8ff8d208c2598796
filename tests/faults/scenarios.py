"""Short scenarios with one fault each, run with the real services in this process: what rounds only meet by chance.

Each scenario leaves rows and a history for the checker.
"""

import asyncio
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from clawsite.infra import db
from clawsite.infra.errors import ClawError
from sessions_app.events.journal import NewEntry, NewEvent
from sessions_app.models import Lane, Run, Session
from sessions_app.runs import lifecycle, queue
from sessions_app.runs.queue import ClaimedRun, LeaseLost
from tests.faults import database_rows as stored
from tests.faults.history import History, Rows, SendAttempt

PROMPT = "[[tokens=2]]"
WORDS = ("w0 ", "w1 ")
_numbers = itertools.count(1)


class ScenarioContext:
    """Sessions and history of one scenario."""

    def __init__(self, user: Any, make_session: Any) -> None:
        self.user, self._make_session = user, make_session
        self.history = History(seed=0)
        self.keys: list[str] = []

    def session(self) -> Session:
        made: Session = self._make_session(self.user, f"agent:main:context-{next(_numbers)}")
        self.keys.append(made.key)
        return made

    async def send(self, session: Session, key: str, prompt: str = PROMPT) -> int:
        """Accept a message as the gateway does. Returns the run, or 0 if it was rejected."""
        try:
            accepted = await db.write(
                lifecycle.accept_run, user=self.user, session=session, run_id=key, prompt=prompt, key=str(session.id)
            )
        except ClawError as error:
            self.history.sent.append(SendAttempt("fail", self.user.pk, key, session.key, prompt, code=error.code))
            return 0
        answer = {"runId": accepted.run_id, "run": accepted.pk}
        self.history.sent.append(SendAttempt("ok", self.user.pk, key, session.key, prompt, answer))
        return accepted.pk

    async def claim(self, most: int = 10, worker: str = "first") -> list[ClaimedRun]:
        return (await db.write(queue.claim_runs, worker, most, alone=True)).runs

    async def expire_lease(self, claimed: ClaimedRun) -> None:
        """Let the lease expire, as if the worker had died."""
        await db.write(_expire, claimed.pk)

    async def recover(self, worker: str = "second") -> list[ClaimedRun]:
        return await db.write(queue.recover_runs, worker, 10, alone=True)

    async def stream(self, claimed: ClaimedRun, message: str, text: str, offset: int = 0, stream: str = "assistant") -> bool:
        """Stream a delta. Returns whether it could be written."""
        return claimed.pk in await db.write(queue.append_events, [(claimed, [delta(message, text, offset, stream)])], alone=True)

    async def void(self, claimed: ClaimedRun, message: str) -> None:
        reset = NewEvent("assistant", {"messageId": message, "attempt": 2, "reset": True})
        await db.write(queue.write_step, claimed, events=[reset], key=str(claimed.session_id))

    async def finish(self, claimed: ClaimedRun, message: str, *, say: bool = True) -> bool:
        """Store the answer and end the run. Returns whether it could be written."""
        try:
            await db.write(_finish, claimed, message, say, key=str(claimed.session_id))
        except LeaseLost:
            return False
        return True

    def result(self) -> tuple[Rows, History]:
        return stored.read_rows(self.keys), self.history


def delta(message: str, text: str, offset: int = 0, stream: str = "assistant") -> NewEvent:
    return NewEvent(stream, {"messageId": message, "attempt": 1, "delta": text, "offset": offset})


def _expire(pk: int) -> None:
    Run.objects.filter(pk=pk).update(lease_until=1.0)


def _finish(claimed: ClaimedRun, message: str, say: bool) -> None:
    text = "".join(WORDS)
    content = [{"type": "text", "text": text}]
    final = NewEvent("assistant", {"messageId": message, "attempt": 1, "final": True, "message": {"content": content}})
    new = [*([delta(message, text)] if say else []), final, lifecycle.build_end_event(Run.Status.COMPLETED, "stop")]
    entry = NewEntry("message", "assistant", content, text, message)
    queue.write_step(claimed, to=Run.Status.COMPLETED, reason="stop", events=new, entries=[entry])


@contextmanager
def failing_commit() -> Iterator[threading.Event]:
    """Let commits fail as if the disk were full. Yields an event that is set at the first attempt."""
    commit = BaseDatabaseWrapper._commit
    tried = threading.Event()

    def fail(self: BaseDatabaseWrapper) -> None:
        tried.set()
        raise OperationalError("database or disk is full")

    BaseDatabaseWrapper._commit = fail
    try:
        yield tried
    finally:
        BaseDatabaseWrapper._commit = commit


async def a_commit_fails(context: ScenarioContext) -> None:
    session = context.session()
    with failing_commit() as tried:
        await context.send(session, f"{session.key}-1")
        await asyncio.to_thread(tried.wait, 20)  # faulty code responds before


async def many_send_the_same(context: ScenarioContext) -> None:
    session = context.session()
    key, together = f"{session.key}-1", threading.Barrier(8)

    def send() -> None:
        try:
            together.wait()
            accepted = lifecycle.accept_run(user=context.user, session=session, run_id=key, prompt=PROMPT)
            context.history.sent.append(
                SendAttempt("ok", context.user.pk, key, session.key, PROMPT, {"runId": key, "run": accepted.pk})
            )
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    while claimed := await context.claim():
        for each in claimed:
            await context.finish(each, f"m-{each.pk}")


async def the_same_key_with_another_body(context: ScenarioContext) -> None:
    session = context.session()
    await context.send(session, f"{session.key}-1")
    await context.send(session, f"{session.key}-1", "something else")
    (claimed,) = await context.claim()
    await context.finish(claimed, "m1")


async def a_frozen_worker_wakes_up(context: ScenarioContext) -> None:
    """A worker that was considered dead continues writing."""
    await context.send(context.session(), f"{context.keys[0]}-1")
    (frozen,) = await context.claim()
    await context.stream(frozen, "m1", WORDS[0])
    await context.expire_lease(frozen)
    (owner,) = await context.recover()
    await context.void(owner, "m1")
    await context.stream(owner, "m2", WORDS[0])
    await context.stream(frozen, "m1", WORDS[1], offset=3)
    await context.finish(frozen, "m1", say=False)
    if await context.stream(owner, "m2", WORDS[1], offset=3):
        await context.finish(owner, "m2", say=False)


async def two_messages_wait_in_one_session(context: ScenarioContext) -> None:
    session = context.session()
    for number in (1, 2):
        await context.send(session, f"{session.key}-{number}")
    while claimed := await context.claim():
        for each in claimed:
            await context.finish(each, f"m-{each.pk}")


async def more_runs_than_the_lane_holds(context: ScenarioContext) -> None:
    await db.write(Lane.objects.filter(name="main").update, max_running=1)
    for _ in range(3):
        session = context.session()
        await context.send(session, f"{session.key}-1")
    while claimed := await context.claim():
        for each in claimed:
            await asyncio.sleep(0.005)  # lanes are checked by milliseconds
            await context.finish(each, f"m-{each.pk}")


async def a_worker_dies(context: ScenarioContext) -> None:
    await context.send(context.session(), f"{context.keys[0]}-1")
    (claimed,) = await context.claim()
    await context.expire_lease(claimed)
    for owner in await context.recover():
        await context.finish(owner, "m2")


async def a_run_kills_its_workers(context: ScenarioContext) -> None:
    await context.send(context.session(), f"{context.keys[0]}-1", "[[hang]]")
    (claimed,) = await context.claim()
    for _ in range(5):
        await context.expire_lease(claimed)
        await context.recover()
    for left in Run.objects.filter(session__key__in=context.keys, status="running"):
        await db.write(lifecycle.request_abort, user=context.user, session=left.session)
        await context.expire_lease(claimed)
        await context.recover()


async def a_neighbour_in_the_commit_fails(context: ScenarioContext) -> None:
    """Two operations share a transaction; one fails, and the other is repeated alone."""
    await context.send(context.session(), f"{context.keys[0]}-1")
    (claimed,) = await context.claim()
    said = [(claimed, [delta("m1", "".join(WORDS))])]
    await _in_one_commit(db.write(queue.append_events, said, key="a"), db.write(_refuse, key="b"))
    await context.finish(claimed, "m1", say=False)


def _refuse() -> None:
    raise LeaseLost("on purpose")


async def the_answer_to_a_commit_is_lost(context: ScenarioContext) -> None:
    """The commit succeeded, but the connection broke before the response. Both runs are left to their next owner."""
    for _ in range(2):
        session = context.session()
        await context.send(session, f"{session.key}-1")
    owners = await context.claim()
    with _unanswered_commit():
        await _in_one_commit(
            *(db.write(queue.append_events, [(owner, [delta("m1", WORDS[0])])], key=str(owner.pk)) for owner in owners)
        )
    for owner in owners:
        await context.expire_lease(owner)
    for owner in await context.recover():
        await context.void(owner, "m1")
        await context.finish(owner, "m2")


async def _in_one_commit(*writes: Any) -> None:
    """Keep the writer busy until all writes are queued."""
    busy, go_on = threading.Event(), threading.Event()

    def hold_up() -> None:
        busy.set()
        go_on.wait(20)

    holding = asyncio.create_task(db.write(hold_up, alone=True))
    await asyncio.to_thread(busy.wait, 20)
    together = [asyncio.create_task(write) for write in writes]
    await asyncio.sleep(0)  # lets each task queue its operation
    go_on.set()
    await asyncio.gather(holding, *together, return_exceptions=True)


@contextmanager
def _unanswered_commit() -> Iterator[None]:
    """Let the connection break after the second commit."""
    commit, left = BaseDatabaseWrapper._commit, [2]  # the first belongs to the operation that keeps the writer busy

    def break_off(self: BaseDatabaseWrapper) -> None:
        commit(self)
        left[0] -= 1
        if left[0] == 0:
            raise OperationalError("server closed the connection unexpectedly")

    BaseDatabaseWrapper._commit = break_off
    try:
        yield
    finally:
        BaseDatabaseWrapper._commit = commit


def rolled_back(fn: Any, *args: Any) -> None:
    """Run a function and roll it back."""
    with transaction.atomic():
        fn(*args)
        transaction.set_rollback(True)
