"""Short stories in which something goes wrong, told by the real services in this process: what rounds meet by chance, on purpose.

Each story is told to its end and leaves rows and a history for the checker.
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


class Scenario:
    """One telling: sessions of its own, and what was written down."""

    def __init__(self, user: Any, make_session: Any) -> None:
        self.user, self._make_session = user, make_session
        self.history = History(seed=0)
        self.keys: list[str] = []

    def session(self) -> Session:
        made: Session = self._make_session(self.user, f"agent:main:story-{next(_numbers)}")
        self.keys.append(made.key)
        return made

    async def send(self, session: Session, key: str, prompt: str = PROMPT) -> int:
        """As the gateway does it; -> the run, 0 when it was refused."""
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

    async def die_of(self, claimed: ClaimedRun) -> None:
        """Its worker is gone, and the lease runs out."""
        await db.write(_expire, claimed.pk)

    async def rescue(self, worker: str = "second") -> list[ClaimedRun]:
        return await db.write(queue.recover_runs, worker, 10, alone=True)

    async def say(self, claimed: ClaimedRun, message: str, text: str, offset: int = 0, stream: str = "assistant") -> bool:
        """-> whether it could be written."""
        return claimed.pk in await db.write(queue.append_events, [(claimed, [delta(message, text, offset, stream)])], alone=True)

    async def void(self, claimed: ClaimedRun, message: str) -> None:
        reset = NewEvent("assistant", {"messageId": message, "attempt": 2, "reset": True})
        await db.write(queue.write_step, claimed, events=[reset], key=str(claimed.session_id))

    async def finish(self, claimed: ClaimedRun, message: str, *, say: bool = True) -> bool:
        """The whole answer and the end; -> whether it could be written."""
        try:
            await db.write(_finish, claimed, message, say, key=str(claimed.session_id))
        except LeaseLost:
            return False
        return True

    def told(self) -> tuple[Rows, History]:
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
    """The disk fills up in the very moment of the commit; -> that it has been tried."""
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


async def a_commit_fails(story: Scenario) -> None:
    session = story.session()
    with failing_commit() as tried:
        await story.send(session, f"{session.key}-1")
        await asyncio.to_thread(tried.wait, 20)  # code with a fault answers before


async def many_send_the_same(story: Scenario) -> None:
    session = story.session()
    key, together = f"{session.key}-1", threading.Barrier(8)

    def send() -> None:
        try:
            together.wait()
            accepted = lifecycle.accept_run(user=story.user, session=session, run_id=key, prompt=PROMPT)
            story.history.sent.append(
                SendAttempt("ok", story.user.pk, key, session.key, PROMPT, {"runId": key, "run": accepted.pk})
            )
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    while claimed := await story.claim():
        for each in claimed:
            await story.finish(each, f"m-{each.pk}")


async def the_same_key_with_another_body(story: Scenario) -> None:
    session = story.session()
    await story.send(session, f"{session.key}-1")
    await story.send(session, f"{session.key}-1", "something else")
    (claimed,) = await story.claim()
    await story.finish(claimed, "m1")


async def a_frozen_worker_wakes_up(story: Scenario) -> None:
    """It was taken for dead, and goes on writing."""
    await story.send(story.session(), f"{story.keys[0]}-1")
    (frozen,) = await story.claim()
    await story.say(frozen, "m1", WORDS[0])
    await story.die_of(frozen)
    (owner,) = await story.rescue()
    await story.void(owner, "m1")
    await story.say(owner, "m2", WORDS[0])
    await story.say(frozen, "m1", WORDS[1], offset=3)
    await story.finish(frozen, "m1", say=False)
    if await story.say(owner, "m2", WORDS[1], offset=3):
        await story.finish(owner, "m2", say=False)


async def two_messages_wait_in_one_session(story: Scenario) -> None:
    session = story.session()
    for number in (1, 2):
        await story.send(session, f"{session.key}-{number}")
    while claimed := await story.claim():
        for each in claimed:
            await story.finish(each, f"m-{each.pk}")


async def more_runs_than_the_lane_holds(story: Scenario) -> None:
    await db.write(Lane.objects.filter(name="main").update, max_running=1)
    for _ in range(3):
        session = story.session()
        await story.send(session, f"{session.key}-1")
    while claimed := await story.claim():
        for each in claimed:
            await asyncio.sleep(0.005)  # a lane is judged by milliseconds
            await story.finish(each, f"m-{each.pk}")


async def a_worker_dies(story: Scenario) -> None:
    await story.send(story.session(), f"{story.keys[0]}-1")
    (claimed,) = await story.claim()
    await story.die_of(claimed)
    for owner in await story.rescue():
        await story.finish(owner, "m2")


async def a_run_kills_its_workers(story: Scenario) -> None:
    await story.send(story.session(), f"{story.keys[0]}-1", "[[hang]]")
    (claimed,) = await story.claim()
    for _ in range(5):
        await story.die_of(claimed)
        await story.rescue()
    for left in Run.objects.filter(session__key__in=story.keys, status="running"):
        await db.write(lifecycle.request_abort, user=story.user, session=left.session)
        await story.die_of(claimed)
        await story.rescue()


async def a_neighbour_in_the_commit_fails(story: Scenario) -> None:
    """Two operations share a transaction; one cannot be done, and the other is done alone."""
    await story.send(story.session(), f"{story.keys[0]}-1")
    (claimed,) = await story.claim()
    said = [(claimed, [delta("m1", "".join(WORDS))])]
    await _in_one_commit(db.write(queue.append_events, said, key="a"), db.write(_refuse, key="b"))
    await story.finish(claimed, "m1", say=False)


def _refuse() -> None:
    raise LeaseLost("as the story wants it")


async def the_answer_to_a_commit_is_lost(story: Scenario) -> None:
    """It was done, and the connection broke before anybody knew. The two runs are left to their next owner."""
    for _ in range(2):
        session = story.session()
        await story.send(session, f"{session.key}-1")
    owners = await story.claim()
    with _unanswered_commit():
        await _in_one_commit(
            *(db.write(queue.append_events, [(owner, [delta("m1", WORDS[0])])], key=str(owner.pk)) for owner in owners)
        )
    for owner in owners:
        await story.die_of(owner)
    for owner in await story.rescue():
        await story.void(owner, "m1")
        await story.finish(owner, "m2")


async def _in_one_commit(*writes: Any) -> None:
    """Keep the writer busy until all of them wait for it."""
    busy, go_on = threading.Event(), threading.Event()

    def hold_up() -> None:
        busy.set()
        go_on.wait(20)

    holding = asyncio.create_task(db.write(hold_up, alone=True))
    await asyncio.to_thread(busy.wait, 20)
    together = [asyncio.create_task(write) for write in writes]
    await asyncio.sleep(0)  # each has handed its operation over
    go_on.set()
    await asyncio.gather(holding, *together, return_exceptions=True)


@contextmanager
def _unanswered_commit() -> Iterator[None]:
    """The second commit is done, and then the connection breaks."""
    commit, left = BaseDatabaseWrapper._commit, [2]  # the first is that of the operation that keeps the writer busy

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
    """Do it, and take it back."""
    with transaction.atomic():
        fn(*args)
        transaction.set_rollback(True)
