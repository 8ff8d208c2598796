"""Processes take turns at writing to SQLite. Another open file of the lock stands for another process."""

import fcntl
import signal
import subprocess
import sys

import pytest
from django.conf import settings

from clawsite.infra import db, sql, write_turn
from sessions_app.models import Lane

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("database")]

HOLD = (
    "import fcntl, sys, time; f = open(sys.argv[1], 'a'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); time.sleep(60)"
)


def turn_path():
    return f"{settings.DATABASES['default']['NAME']}-turn"


@pytest.fixture
async def other_process():
    """Another process's lock, if there is one: the database needs no turns on PostgreSQL."""
    await db.write(count_lanes)  # opens the file
    if sql.has_row_locks():
        yield None
        return
    with open_turn() as file:
        yield file


def open_turn():
    return open(turn_path(), "a")


def start_holder():
    holder = subprocess.Popen([sys.executable, "-c", HOLD, turn_path()], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    return holder


def lock(file):
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_free(file):
    if file is None:
        return True
    try:
        lock(file)
    except BlockingIOError:
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return True


def count_lanes():
    return Lane.objects.count()


async def test_write_holds_the_turn_and_passes_it_on(other_process):
    held = await db.write(lambda: not is_free(other_process))
    assert held == (other_process is not None)
    assert is_free(other_process)


async def test_failed_write_passes_the_turn_on(other_process):
    with pytest.raises(ZeroDivisionError):
        await db.write(lambda: 1 / 0)
    assert is_free(other_process)


async def test_write_waits_for_its_turn(other_process, monkeypatch):
    if other_process is None:
        return
    tries = []

    def sleep(_seconds):
        tries.append(1)
        if len(tries) == 3:
            fcntl.flock(other_process, fcntl.LOCK_UN)

    monkeypatch.setattr(write_turn.time, "sleep", sleep)
    lock(other_process)
    assert await db.write(count_lanes)
    assert len(tries) == 3


async def test_write_goes_ahead_if_its_turn_does_not_come(other_process, monkeypatch):
    if other_process is None:
        return
    monkeypatch.setattr(write_turn, "MAX_WAIT_SECONDS", 0.0)
    lock(other_process)
    assert await db.write(count_lanes)
    with open_turn() as third:
        assert not is_free(third), "a turn that was not taken is not passed on"


async def test_killed_process_leaves_its_turn(other_process, monkeypatch):
    if other_process is None:
        return
    holder = start_holder()
    monkeypatch.setattr(write_turn, "MAX_WAIT_SECONDS", 60.0)
    monkeypatch.setattr(write_turn.time, "sleep", lambda _seconds: (holder.kill(), holder.wait()))
    try:
        assert not is_free(other_process)
        assert await db.write(count_lanes)
        assert holder.returncode == -signal.SIGKILL
        assert is_free(other_process)
    finally:
        holder.kill()


async def test_database_in_a_read_only_directory_needs_no_turns(monkeypatch):
    def refuse(*_args):
        raise PermissionError("read-only")

    write_turn._open_turn.cache_clear()
    monkeypatch.setattr(write_turn.os, "open", refuse)
    try:
        assert await db.write(count_lanes)
    finally:
        write_turn._open_turn.cache_clear()
