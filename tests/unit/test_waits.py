"""Waiting for a hint, with polling as the fallback."""

import asyncio
from collections.abc import Callable

import pytest

from clawsite.infra.waits import Waiters, wait_for_hint

NEVER = 3600.0


class Row:
    """A row that is read several times. `during` runs in the middle of a read, after the value was taken."""

    def __init__(self, *values: str | None, during: Callable[[], None] = lambda: None) -> None:
        self.values, self.during = list(values), during

    async def read(self) -> str | None:
        value = self.values.pop(0)
        self.during()
        return value


async def test_value_that_is_there_is_returned_without_waiting() -> None:
    assert await Waiters[str]().wait_until("a", Row("done").read, poll_seconds=NEVER) == "done"


async def test_notification_during_a_read_is_not_lost() -> None:
    waiters = Waiters[str]()
    row = Row(None, "done", during=lambda: waiters.notify("a"))
    assert await waiters.wait_until("a", row.read, poll_seconds=NEVER) == "done"


async def test_lost_notification_is_made_up_for_by_polling() -> None:
    assert await Waiters[str]().wait_until("a", Row(None, None, "done").read, poll_seconds=0) == "done"


async def test_waiters_are_forgotten_when_they_give_up() -> None:
    waiters = Waiters[str]()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await waiters.wait_until("a", Row(None, None).read, poll_seconds=NEVER)
    assert not waiters


async def test_hint_is_cleared_so_that_the_next_wait_waits_again() -> None:
    hint = asyncio.Event()
    hint.set()
    await wait_for_hint(hint, NEVER)
    assert not hint.is_set()
