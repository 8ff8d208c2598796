"""Notices in a session about something that happened outside its runs: a transcript mark and an event, in one commit.

Users see a notice immediately; the model sees it with the next request (messages.read_model_history).
"""

from typing import Any

from clawsite.infra import clock
from sessions_app.events import journal
from sessions_app.events.announce import announce
from sessions_app.events.journal import NewEntry, NewEvent, new_message_id
from sessions_app.models import Session


def add_notice(session: Session, change: str, text: str, **facts: Any) -> None:
    """Add a notice in the caller's transaction. `text` is for the model; clients render `facts` in the reader's language."""
    entry = NewEntry("session", "notice", [], text, new_message_id(), {"change": change, **facts})
    message = {
        **facts,
        "role": "notice",
        "notice": change,
        "content": [],
        "text": text,
        "timestamp": clock.now_ms(),
        "messageId": entry.message_id,
    }
    event = NewEvent("session", {"change": change, "message": message})
    batch = journal.insert_session_event(session.id, event, entries=[entry], generation=session.generation)
    announce(session_id=session.id, session_key=session.key, owner_id=session.owner_id, batch=batch)
