"""Catching up by messages instead of events: what was said after the end of a page that a client has."""

from typing import NamedTuple

from sessions_app.history import HistoryPage, history
from sessions_app.models import Session, TranscriptEntry

MOST = 200  # messages; who is further behind reads the newest page again


class End(NamedTuple):
    """The newer end of what a client has. The epoch is that of the session's log, `generation` changes with a reset."""

    epoch: str
    generation: str
    position: int

    @classmethod
    def of(cls, epoch: str, session: Session, page: HistoryPage) -> "End":
        return cls(epoch, session.generation_id.hex, page.end)

    @classmethod
    def read(cls, text: str) -> "End | None":
        """None where it is not one of ours."""
        epoch, _, rest = text.partition(".")
        generation, _, position = rest.partition(".")
        return cls(epoch, generation, int(position)) if position.isdecimal() and len(position) < 16 else None

    def __str__(self) -> str:
        return f"{self.epoch}.{self.generation}.{self.position}"


def said_since(session: Session, end: End, epoch: str, room: int) -> HistoryPage | None:
    """None where what the client has cannot be continued: another log, a reset, a step back, or too far behind."""
    if (end.epoch, end.generation) != (epoch, session.generation_id.hex):
        return None
    page = history(session, limit=MOST, after=end.position, room=room)
    if page.after is not None or page.end < end.position:
        return None
    # Looked for after the messages were read: a step back that comes between the two costs one more reading.
    steps_back = TranscriptEntry.objects.filter(session=session, kind=TranscriptEntry.Kind.REWIND, position__gt=end.position)
    return None if steps_back.exists() else page
