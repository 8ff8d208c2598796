"""Plain values about runs that several modules pass around."""

import datetime as dt
import uuid
from dataclasses import dataclass

from sessions_app.models import Run
from sessions_app.run_request import RunRequest


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run as its worker holds it; every write checks `lease`."""

    pk: int
    run_id: str
    session_id: uuid.UUID
    session_key: str
    owner_id: int
    session_owner_id: int
    agent: str
    generation: int
    lane: str
    lease: int
    seq: int
    steps: int
    prompt: str
    request: RunRequest
    session_model: str
    thinking_level: str
    timeout_seconds: float | None
    running_seconds: float
    rescues: int
    accepted_at: dt.datetime
    started_ms: int
    first: bool
    abort_reason: str
    channel: str


@dataclass(frozen=True, slots=True)
class RunState:
    pk: int
    run_id: str
    session_id: str
    session_key: str
    generation_id: str
    status: str
    reason: str
    error: str
    model: str
    usage: dict[str, int]
    accepted_ms: int
    started_ms: int | None
    ended_ms: int | None
    text: str  # of the last stored answer

    @property
    def ended(self) -> bool:
        return self.status in Run.ENDED
