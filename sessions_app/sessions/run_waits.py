"""Wait for the end of a run in any worker. The bus wakes the waiters; the hub also polls, in case a message is lost."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from clawsite.accounts.models import User
from clawsite.infra import db
from clawsite.infra.waits import Waiters
from sessions_app.events.announce import is_last_event
from sessions_app.runs.types import RunState
from sessions_app.sessions import selectors


class RunWaiters(Waiters[int]):
    @property
    def runs(self) -> list[int]:
        return list(self._waiting)

    def handle_events(self, events: Iterable[Mapping[str, Any]]) -> None:
        if self._waiting:
            for event in events:
                if event["run"] in self._waiting and is_last_event(event):
                    self.notify(event["run"])


_find_waiters: Callable[[], Awaitable[RunWaiters]] | None = None


def set_source(find_waiters: Callable[[], Awaitable[RunWaiters]]) -> None:
    """Set where the waiters of this process come from. The app that receives the bus calls this when it is loaded."""
    global _find_waiters
    _find_waiters = find_waiters


async def process_waiters() -> RunWaiters:
    """The waiters of this process, which the bus wakes. Starts the process's runtime if necessary."""
    if _find_waiters is None:
        raise RuntimeError("no installed app receives events of runs")
    return await _find_waiters()


async def wait_for_run_end(waits: RunWaiters, user: User, run_id: str, run_pk: int) -> RunState:
    """Return the run when it has ended."""

    async def read_ended() -> RunState | None:
        state = await db.read(selectors.read_run_state, user, run_id)
        return state if state.ended else None

    return await waits.wait_until(run_pk, read_ended, poll_seconds=None)
