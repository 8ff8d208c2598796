"""Waiting for the end of a run that another worker may have: told by the bus, with a poll of its row behind it."""

import asyncio
import contextlib

from django.conf import settings

from clawsite.accounts.models import User
from clawsite.infra import bus, db
from clawsite.infra.bus import BusMessage
from sessions_app.events.announce import is_last_event
from sessions_app.runs.types import RunState
from sessions_app.sessions import selectors


async def wait_for_nested_run(user: User, run_id: str, run_pk: int, *, seconds: float, abort: asyncio.Event) -> RunState:
    """The run once it has ended; as it is when the time is over or the caller is to stop. No lock is held meanwhile."""
    news = asyncio.Event()

    def hear(message: BusMessage) -> None:
        if message.get("k") == "events" and any(event["run"] == run_pk and is_last_event(event) for event in message["events"]):
            news.set()

    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    unsubscribe = bus.subscribe(hear)
    try:
        while True:
            news.clear()  # before the look: an end that comes after it is heard
            state = await db.read(selectors.read_run_state, user, run_id)
            left = deadline - loop.time()
            if state.ended or left <= 0 or abort.is_set():
                return state
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, settings.POLL_SECONDS)):
                    await news.wait()
    finally:
        unsubscribe()
