"""Going back to an earlier message. Nothing is removed: a `rewind` entry says up to where the transcript counts.

An entry is hidden when a later rewind of its generation keeps less than it. Everything that reads the transcript for somebody
asks `visible()`: history, the model's history, previews, search, forks. Export does not; it writes the rewinds down.
"""

from dataclasses import dataclass

from clawsite.accounts.models import User
from clawsite.infra import sql
from clawsite.infra.errors import Conflict, Forbidden, InvalidRequest, NotFound
from sessions_app.events import announce as events
from sessions_app.events.journal import NewEntry, NewEvent, insert_session_event, new_message_id
from sessions_app.models import Run, Session, TranscriptEntry
from sessions_app.tables import ENTRY, RUN, SESSION

IS_MESSAGE = "kind IN ('message', 'tool_result')"
IS_MESSAGE_OR_SUMMARY = (
    "kind IN ('message', 'tool_result', 'compaction')"  # a summary before the message stays with what it sums up
)


def visible_condition(entry: str) -> str:
    """The condition for entries of that name in a query: no later rewind takes them back."""
    return (
        f"NOT EXISTS (SELECT 1 FROM {ENTRY} w WHERE w.session_id = {entry}.session_id AND w.generation = {entry}.generation "
        f"AND w.kind = 'rewind' AND w.position > {entry}.position AND w.keep_through < {entry}.position)"
    )


@dataclass(frozen=True, slots=True)
class MessagePosition:
    position: int
    role: str
    author: int | None  # who asked for its run; None of what belongs to none


def find_message_position(session: Session, message_id: str) -> MessagePosition:
    """Where a message stands that can be seen; an imported transcript may use an id again, then the last one is meant."""
    found = sql.fetch_rows(
        f"""
        SELECT e.position, e.role, r.owner_id FROM {ENTRY} e LEFT JOIN {RUN} r ON r.id = e.run_id
        WHERE e.session_id = %s AND e.generation = %s AND e.message_id = %s AND e.{IS_MESSAGE} AND {visible_condition("e")}
        ORDER BY e.position DESC LIMIT 1
        """,
        [sql.uuid_value(session.pk), session.generation, message_id],
    )
    if not found:
        raise NotFound(f"this conversation has no message {message_id!r} any more")
    return MessagePosition(*found[0])


def rewind_before(user: User, session: Session, message_id: str) -> None:
    """Hide a user's message and all that came after it. The caller has locked the session and writes what comes instead.

    In a shared session everybody changes their own messages, and the owner any.
    """
    generation = sql.fetch_row(f"SELECT generation FROM {SESSION} WHERE id = %s", [sql.uuid_value(session.pk)])[0]
    session = Session(id=session.id, owner_id=session.owner_id, key=session.key, generation=generation)
    if Run.objects.filter(session=session, status__in=Run.UNFINISHED).exists():
        raise Conflict("the session has an unfinished run; stop it first", retryable=True, details={"code": "RUN_UNFINISHED"})
    place = find_message_position(session, message_id)
    if place.role != "user":
        raise InvalidRequest("only a message of a user can be replaced; name the one before this answer")
    if user.pk not in (session.owner_id, place.author):
        raise Forbidden("this is somebody else's message; only its author and the session's owner may replace it")
    kept = sql.fetch_rows(
        f"""
        SELECT e.position, e.message_id FROM {ENTRY} e
        WHERE e.session_id = %s AND e.generation = %s AND e.position < %s AND e.{IS_MESSAGE_OR_SUMMARY} AND {visible_condition("e")}
        ORDER BY e.position DESC LIMIT 1
        """,
        [sql.uuid_value(session.pk), generation, place.position],
    )
    position, keep_id = kept[0] if kept else (0, None)
    entry = NewEntry(TranscriptEntry.Kind.REWIND, "", [], "", new_message_id(), {"keepThrough": keep_id}, keep_through=position)
    event = NewEvent("session", {"change": "rewind", "keepThrough": keep_id, "keepThroughPosition": position})
    told = insert_session_event(session.id, event, entries=[entry], generation=generation)
    events.announce(session_id=session.id, session_key=session.key, owner_id=session.owner_id, told=told)
