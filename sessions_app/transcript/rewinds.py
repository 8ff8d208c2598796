"""Go back to an earlier message. Nothing is removed: a `rewind` entry records how much of the transcript still counts.

An entry is hidden if a later rewind of its generation keeps less than its position. Everything that shows the transcript uses
`visible_condition()`: history, model history, previews, search, forks. Export writes the rewinds instead.
"""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import sql
from clawsite.infra.errors import Conflict, Forbidden, InvalidRequest, NotFound
from sessions_app.events import announce as events
from sessions_app.events.journal import NewEntry, NewEvent, insert_session_event, new_message_id
from sessions_app.models import Run, Session, TranscriptEntry
from sessions_app.tables import ENTRY, RUN, SESSION

IS_MESSAGE = "kind IN ('message', 'tool_result')"
IS_MESSAGE_OR_SUMMARY = (
    "kind IN ('message', 'tool_result', 'compaction')"  # a summary before the message stays with the messages it covers
)


def visible_condition(entry: str) -> str:
    """Return the SQL condition that no later rewind hides the entry with this table alias."""
    return (
        f"NOT EXISTS (SELECT 1 FROM {ENTRY} w WHERE w.session_id = {entry}.session_id AND w.generation = {entry}.generation "
        f"AND w.kind = 'rewind' AND w.position > {entry}.position AND w.keep_through < {entry}.position)"
    )


@dataclass(frozen=True, slots=True)
class MessagePosition:
    position: int
    role: str
    author: int | None  # user who started its run; None without a run


def find_message_position(session: Session, message_id: str) -> MessagePosition:
    """Find a visible message; imported transcripts may repeat an ID, in which case the last one counts."""
    rows = sql.fetch_rows(
        f"""
        SELECT e.position, e.role, r.owner_id FROM {ENTRY} e LEFT JOIN {RUN} r ON r.id = e.run_id
        WHERE e.session_id = %s AND e.generation = %s AND e.message_id = %s AND e.{IS_MESSAGE} AND {visible_condition("e")}
        ORDER BY e.position DESC LIMIT 1
        """,
        [sql.uuid_value(session.pk), session.generation, message_id],
    )
    if not rows:
        raise NotFound(_("Message not found in this chat: %(id)s") % {"id": message_id})
    return MessagePosition(*rows[0])


def rewind_before(user: User, session: Session, message_id: str) -> None:
    """Hide a user message and everything after it. The caller has locked the session and writes the replacement.

    In a shared session members can replace their own messages, and the owner any message.
    """
    generation = sql.fetch_row(f"SELECT generation FROM {SESSION} WHERE id = %s", [sql.uuid_value(session.pk)])[0]
    session = Session(id=session.id, owner_id=session.owner_id, key=session.key, generation=generation)
    if Run.objects.filter(session=session, status__in=Run.UNFINISHED).exists():
        raise Conflict(_("This chat has an unfinished run. Stop it first."), retryable=True, details={"code": "RUN_UNFINISHED"})
    target = find_message_position(session, message_id)
    if target.role != "user":
        raise InvalidRequest(_("Only user messages can be replaced. Choose the message before this answer."))
    if user.pk not in (session.owner_id, target.author):
        raise Forbidden(_("Only the author and the chat’s owner can replace this message."))
    preceding = sql.fetch_rows(
        f"""
        SELECT e.position, e.message_id FROM {ENTRY} e
        WHERE e.session_id = %s AND e.generation = %s AND e.position < %s AND e.{IS_MESSAGE_OR_SUMMARY} AND {visible_condition("e")}
        ORDER BY e.position DESC LIMIT 1
        """,
        [sql.uuid_value(session.pk), generation, target.position],
    )
    position, keep_id = preceding[0] if preceding else (0, None)
    entry = NewEntry(TranscriptEntry.Kind.REWIND, "", [], "", new_message_id(), {"keepThrough": keep_id}, keep_through=position)
    event = NewEvent("session", {"change": "rewind", "keepThrough": keep_id, "keepThroughPosition": position})
    batch = insert_session_event(session.id, event, entries=[entry], generation=generation)
    events.announce(session_id=session.id, session_key=session.key, owner_id=session.owner_id, batch=batch)
