"""The only way from async code to the ORM.

Reads run on a small thread pool. Writes run on one thread per process, which commits all waiting operations together:
SQLite has one writer anyway, and on PostgreSQL one fsync then serves many. If an operation fails, the others still
commit. asgiref's thread-sensitive default would run everything on one thread instead.
"""

import asyncio
import functools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction
from django.utils import translation
from django.utils.translation import gettext as _

from clawsite.infra.errors import ClawError, Unavailable
from clawsite.infra.observability import metrics
from clawsite.infra.write_turn import take_write_turn

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

READER_THREADS = 4
CHECK_CONNECTION_AFTER_SECONDS = 2.0
MAX_WRITES_PER_COMMIT = 64  # keeps a transaction below about 5 ms, so that other processes never wait long for SQLite's lock


async def read(fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a read-only function on a thread that keeps its connection open."""
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_readers(), _in_error_language(functools.partial(_on_reader, fn, args, kwargs)))


async def write(fn: Callable[..., T], *args: Any, key: str = "", alone: bool = False, **kwargs: Any) -> T:
    """Run a function in a transaction shared with other pending writes.

    `key` is the session it locks: operations of one commit take their locks in key order, so that two processes can't
    deadlock. `alone` runs it in a separate transaction (for claims, which lock a lane first). After a rollback the function
    may run again, so its only side effects must be in the database.
    """
    loop = asyncio.get_running_loop()
    operation = _Operation(functools.partial(_in_error_language(fn), *args, **kwargs), key, alone, loop, loop.create_future())
    _writer().submit(operation)
    return await operation.future  # type: ignore[no-any-return]  # the queue loses the type T


@contextmanager
def errors_in_language(language: str) -> Iterator[None]:
    """Translate error messages, including those from reads and writes. "" leaves them in English.

    Otherwise the threads have no active language, whatever the caller's language: what they store and log is in English.
    Tasks started inside this context use English too. Functions called with a language must not store translated texts.
    """
    if not language:
        yield
        return
    token = _error_language.set((language, asyncio.current_task()))
    try:
        with translation.override(language):
            yield
    finally:
        _error_language.reset(token)


def _in_error_language(fn: Callable[P, T]) -> Callable[P, T]:
    language, task = _error_language.get()
    if not language or task is not asyncio.current_task():
        return fn

    def translated(*args: P.args, **kwargs: P.kwargs) -> T:
        with translation.override(language):
            return fn(*args, **kwargs)

    return translated


def close() -> None:
    """Finish pending work and stop the threads; the next use restarts them."""
    global _reader_pool, _writer_thread
    with _start_lock:
        writer, _writer_thread = _writer_thread, None
        readers, _reader_pool = _reader_pool, None
    if writer:
        writer.stop()
    if readers:
        barrier = threading.Barrier(READER_THREADS)  # so that each thread takes exactly one task
        for _number in range(READER_THREADS):
            readers.submit(_close_connection, barrier)
        readers.shutdown(wait=True)


def _close_connection(barrier: threading.Barrier) -> None:
    barrier.wait()
    connection.close()  # an unclosed connection is never returned to PostgreSQL's pool


def to_claw_error(error: DatabaseError) -> ClawError | None:
    """Translate a database error for the caller. Return None if it is a bug in our code."""
    text = str(error).lower()
    if "readonly" in text or "read-only" in text:
        return Unavailable(_("the database is read-only; make its file and directory writable for this account"), retryable=True)
    if "disk is full" in text or "no space left" in text or "disk i/o error" in text:
        return Unavailable(_("the database disk is full (no data was lost); free some space"), retryable=True)
    if "locked" in text:
        return Unavailable(_("the database is busy; try again"), retryable=True, retry_after_ms=500)
    if isinstance(error, OperationalError | InterfaceError):
        return Unavailable(_("the database is unavailable; try again in a moment"), retryable=True, retry_after_ms=1000)
    return None


def _on_reader(fn: Callable[..., T], args: Any, kwargs: Any) -> T:
    _drop_if_dead()
    try:
        return fn(*args, **kwargs)
    except DatabaseError as error:
        raise _handle_fault(error) from error


def _drop_if_dead() -> None:
    """After a pause, drop the connection if it is dead: the server may have restarted."""
    now, used = time.monotonic(), getattr(_thread_state, "used", 0.0)
    _thread_state.used = now
    idle = used and now - used > CHECK_CONNECTION_AFTER_SECONDS
    if idle and connection.connection is not None and connection.vendor == "postgresql" and not connection.is_usable():
        connection.close()


def _handle_fault(error: DatabaseError) -> Exception:
    """Drop a connection that may be broken; the next use opens another."""
    if isinstance(error, OperationalError | InterfaceError) and not connection.in_atomic_block:
        connection.close()
    return to_claw_error(error) or error


@dataclass(slots=True)
class _Operation:
    run: Callable[[], Any]
    key: str
    alone: bool
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"
    result: Any = None
    error: BaseException | None = None


class _Writer:
    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[_Operation | None] = queue.SimpleQueue()
        metrics.db_queue.set_function(self._waiting.qsize)
        self._thread = threading.Thread(target=self._work, name="db-write", daemon=True)
        self._thread.start()

    def submit(self, operation: _Operation) -> None:
        self._waiting.put(operation)

    def stop(self) -> None:
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            batch = [self._waiting.get()]
            while batch[-1] is not None and len(batch) < MAX_WRITES_PER_COMMIT:
                try:
                    batch.append(self._waiting.get_nowait())
                except queue.Empty:
                    break
            operations = [operation for operation in batch if operation is not None]
            _drop_if_dead()
            for group in _split_groups(operations):
                began = time.perf_counter()
                _commit(group)
                _notify_callers(group)
                metrics.commit_seconds.observe(time.perf_counter() - began)
                metrics.db_commits.inc()
                metrics.db_writes.inc(len(group))
            if batch[-1] is None:
                connection.close()
                return


def _split_groups(operations: list[_Operation]) -> list[list[_Operation]]:
    """Split at the operations that need a separate transaction; sort each group by key.

    The sort is stable: each session's operations keep their order.
    """
    groups: list[list[_Operation]] = [[]]
    for operation in operations:
        if operation.alone:
            groups += [[operation], []]
        else:
            groups[-1].append(operation)
    return [sorted(group, key=lambda operation: operation.key) for group in groups if group]


def _commit(group: list[_Operation]) -> None:
    committing = False
    try:
        with take_write_turn(), transaction.atomic():
            for operation in group:
                operation.result = operation.run()
            committing = True
    except Exception as error:
        # If the connection broke during the commit, its outcome is unknown: a retry could apply it twice.
        if len(group) > 1 and not (committing and isinstance(error, OperationalError | InterfaceError)):
            for operation in group:
                _commit([operation])
            return
        reported_error = _handle_fault(error) if isinstance(error, DatabaseError) else error
        for operation in group:
            operation.error = reported_error


def _notify_callers(group: list[_Operation]) -> None:
    """Wake the callers with one call per event loop."""
    for loop in {operation.loop for operation in group}:
        mine = [operation for operation in group if operation.loop is loop]
        try:
            loop.call_soon_threadsafe(_resolve, mine)
        except RuntimeError:  # the loop is closed: there is no caller left
            log.debug("write finished after its event loop closed")


def _resolve(operations: list[_Operation]) -> None:
    for operation in operations:
        if operation.future.done():
            continue
        if operation.error is None:
            operation.future.set_result(operation.result)
        else:
            operation.future.set_exception(operation.error)


_start_lock = threading.Lock()
_error_language: ContextVar[tuple[str, asyncio.Task[Any] | None]] = ContextVar("error_language", default=("", None))
_thread_state = threading.local()  # when this thread last used its connection
_reader_pool: ThreadPoolExecutor | None = None
_writer_thread: _Writer | None = None


def _readers() -> ThreadPoolExecutor:
    global _reader_pool
    with _start_lock:
        if _reader_pool is None:
            _reader_pool = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="db-read")
        return _reader_pool


def _writer() -> _Writer:
    global _writer_thread
    with _start_lock:
        if _writer_thread is None:
            _writer_thread = _Writer()
        return _writer_thread
