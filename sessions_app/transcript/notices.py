"""Notices in a conversation: that something outside of its runs has happened. A mark of the transcript and an event, in one commit.

People see it at once; the model is told when it is asked the next time (transcript.model_history).
"""

from typing import Any

from clawsite.infra import clock
from sessions_app.events import journal
from sessions_app.events.announce import announce
from sessions_app.events.journal import NewEntry, NewEvent, new_message_id
from sessions_app.models import Session


def add_notice(session: Session, change: str, text: str, **facts: Any) -> None:
    """In the caller's transaction. `text` is for the model; `facts` are for programs, which say it in the reader's language."""
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
    told = journal.insert_session_event(session.id, event, entries=[entry], generation=session.generation)
    announce(session_id=session.id, session_key=session.key, owner_id=session.owner_id, told=told)
