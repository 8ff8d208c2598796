"""The epoch of the event log, and automatic detection of a restored database.

After a restore the log is older than what clients have seen, and later reuses their cursors for other events. It therefore gets
a new epoch, and cursors of another epoch are rejected. An operator runs `claw restored`, or the restore is detected: each host
keeps a note of epoch and mark in its state directory, and a database with a lower mark is an older copy.
"""

import json
import logging
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.db import transaction

from sessions_app.models import EventLog, Session

log = logging.getLogger(__name__)

NOTE_FILE = "log.mark"  # in the state directory


@dataclass(frozen=True, slots=True)
class EpochMark:
    epoch: str
    mark: int


def install_epoch(**_: Any) -> None:
    """Create the row after every migration; an existing epoch stays."""
    EventLog.objects.bulk_create([EventLog(epoch=_generate_epoch())], ignore_conflicts=True)


def current_epoch() -> str:
    """Read the epoch before the cursor it goes with: a change in between then only costs the client one more read."""
    return EventLog.objects.values_list("epoch", flat=True).get()


def epoch_of_session(session: Session | None) -> str:
    """Return the epoch of one session's log. A key can get a new session after a deletion, whose cursors start over."""
    return f"{current_epoch()}-{session.pk.hex[:8]}" if session else current_epoch()


def start_new_epoch() -> str:
    """Invalidate all cursors given out so far."""
    epoch = _generate_epoch()
    EventLog.objects.update(epoch=epoch)
    transaction.on_commit(lambda: log.warning("event log has a new epoch, %s; clients reload their sessions", epoch))
    return epoch


@transaction.atomic
def advance_mark(seen: EpochMark | None) -> EpochMark:
    """Advance the mark by one; start a new epoch if the database is behind what this host has seen."""
    row, _ = EventLog.objects.select_for_update().get_or_create(pk=EventLog.ROW, defaults={"epoch": _generate_epoch()})
    if seen and seen.mark > row.mark:
        log.warning(
            "database is older than last seen by this host (mark %d, last seen %d); assuming it was restored", row.mark, seen.mark
        )
        row.epoch, row.mark = (
            start_new_epoch(),
            seen.mark,
        )  # marks grow across epochs, so restoring the same backup again is detected too
    row.mark += 1
    row.save()
    return EpochMark(row.epoch, row.mark)


def update_note(home: Path) -> None:
    """Compare the database with the note and update the note; called when a process starts."""
    write_note(home, advance_mark(read_note(home)))


def read_note(home: Path) -> EpochMark | None:
    try:
        return EpochMark(**json.loads((home / NOTE_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None  # missing or unreadable; a new one is written


def write_note(home: Path, mark: EpochMark) -> None:
    """Write the note only after the mark is committed: a note ahead of the database means a restore."""
    new = home / f"{NOTE_FILE}.{os.getpid()}"
    new.write_text(json.dumps(asdict(mark)))
    new.replace(home / NOTE_FILE)


def _generate_epoch() -> str:
    return secrets.token_hex(4)
