"""Wait for the end of a run that may be on another worker, by bus events backed up by polling."""

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
    """Return the run's state once it has ended, the time is up or `abort` is set. Holds no lock while waiting."""
    ended = asyncio.Event()

    def on_message(message: BusMessage) -> None:
        if message.get("k") == "events" and any(event["run"] == run_pk and is_last_event(event) for event in message["events"]):
            ended.set()

    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    unsubscribe = bus.subscribe(on_message)
    try:
        while True:
            ended.clear()  # before reading the state, so that an end after it is not missed
            state = await db.read(selectors.read_run_state, user, run_id)
            left = deadline - loop.time()
            if state.ended or left <= 0 or abort.is_set():
                return state
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, settings.POLL_SECONDS)):
                    await ended.wait()
    finally:
        unsubscribe()
