"""Wait for a run to end in any process: woken by the bus, with the hub's poll as a fallback."""

from collections.abc import Iterable
from typing import Any

from clawsite.accounts.models import User
from clawsite.gateway.delivery.waits import Waiters
from clawsite.infra import db
from sessions_app.events.announce import is_last_event
from sessions_app.runs.types import RunState
from sessions_app.sessions import selectors


class RunWaiters(Waiters[int]):
    @property
    def runs(self) -> list[int]:
        return list(self._waiting)

    def hear(self, events: Iterable[dict[str, Any]]) -> None:
        if self._waiting:
            for event in events:
                if event["run"] in self._waiting and is_last_event(event):
                    self.tell(event["run"])


async def wait_for_run_end(waits: RunWaiters, user: User, run_id: str, run_pk: int) -> RunState:
    """Return the run's state once it has ended. Listening starts before the row is read, so that the end can't be missed."""
    with waits.of(run_pk) as news:
        while True:
            news.clear()
            state = await db.read(selectors.read_run_state, user, run_id)
            if state.ended:
                return state
            await news.wait()
