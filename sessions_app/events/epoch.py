"""The epoch of the event log, and noticing by itself that the database came from a backup.

After a restore the log is older than what clients have seen, and grows past their cursors again with other events. So it gets
another epoch, and a cursor of another epoch is not continued. An operator says so (`claw restored`), or it is noticed: every host
keeps a note of epoch and mark in its state directory, and a database with a lower mark is an older copy of itself.
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
    """After every migration: the row exists, and an epoch that is there stays."""
    EventLog.objects.bulk_create([EventLog(epoch=_generate_epoch())], ignore_conflicts=True)


def current_epoch() -> str:
    """Read it before the cursor it shall go with: a change in between then only costs a client one more reading."""
    return EventLog.objects.values_list("epoch", flat=True).get()


def epoch_of_session(session: Session | None) -> str:
    """The epoch of one session's log. A key may get another session after a delete, and cursors begin again with it."""
    return f"{current_epoch()}-{session.pk.hex[:8]}" if session else current_epoch()


def start_new_epoch() -> str:
    """From now on no cursor that was given out before is continued."""
    epoch = _generate_epoch()
    EventLog.objects.update(epoch=epoch)
    transaction.on_commit(lambda: log.warning("the event log has a new epoch, %s: clients read their sessions anew", epoch))
    return epoch


@transaction.atomic
def advance_mark(seen: EpochMark | None) -> EpochMark:
    """One further than the last; if the database is behind what was seen of it, in a new epoch."""
    row, _ = EventLog.objects.select_for_update().get_or_create(pk=EventLog.ROW, defaults={"epoch": _generate_epoch()})
    if seen and seen.mark > row.mark:
        log.warning("the database is older than this host has seen it (mark %d, then %d): restored?", row.mark, seen.mark)
        row.epoch, row.mark = start_new_epoch(), seen.mark  # marks grow over all epochs: the same backup once more is noticed too
    row.mark += 1
    row.save()
    return EpochMark(row.epoch, row.mark)


def update_note(home: Path) -> None:
    """Compare with the note and bring it up to date; done by processes that start."""
    write_note(home, advance_mark(read_note(home)))


def read_note(home: Path) -> EpochMark | None:
    try:
        return EpochMark(**json.loads((home / NOTE_FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None  # none yet; or not one of ours, and then the next one is


def write_note(home: Path, mark: EpochMark) -> None:
    """Only after the mark is committed: a note that is ahead of the database means that it was restored."""
    new = home / f"{NOTE_FILE}.{os.getpid()}"
    new.write_text(json.dumps(asdict(mark)))
    new.replace(home / NOTE_FILE)


def _generate_epoch() -> str:
    return secrets.token_hex(4)
