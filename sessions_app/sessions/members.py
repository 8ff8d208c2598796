"""People who share a session with its owner: who they are, and who may change that."""

from django.db import transaction
from django.db.models import Q
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.infra import sql
from clawsite.infra.errors import Forbidden, InvalidRequest, NotFound
from sessions_app import tables
from sessions_app.events import announce
from sessions_app.models import Session, SessionMember
from sessions_app.models.session import SessionQuerySet
from sessions_app.runs import lifecycle

MAX_MEMBERS = 50  # people in one conversation
SHARE_ENDED = "share-ended"  # why a run was stopped: who began it may not write there any more


class Member(TypedDict):
    username: str
    name: str
    role: str  # owner, writer or viewer


def filter_shared_with(user: User, found: SessionQuerySet) -> SessionQuerySet:
    """Of these sessions one's own, and those somebody shares with one; not what one may see by office."""
    return found.filter(Q(owner=user) | Q(pk__in=SessionMember.objects.filter(user=user).values("session_id")))


def list_members(session: Session) -> list[Member]:
    """The owner, then everybody else by name."""
    others = SessionMember.objects.filter(session=session).select_related("user").order_by("user__username")
    return [_to_member(session.owner, "owner"), *(_to_member(each.user, each.role) for each in others)]


def _to_member(user: User, role: str) -> Member:
    return Member(username=user.username, name=user.get_full_name() or user.username, role=role)


@transaction.atomic
def share(user: User, session: Session, username: str, role: str | None) -> None:
    """Let somebody see a session, or also write in it; None takes it back. The owner decides, and everybody may leave.

    Who may write no more has no run there any more either, begun or not.
    """
    leaves = role is None and username == user.username
    if session.owner_id != user.pk and not leaves:
        raise Forbidden("only its owner shares a conversation; ask them")
    person = User.objects.filter(username=username, is_active=True, is_service=False).first()
    tables.lock_sessions([sql.uuid_value(session.id)])  # a run they begin meanwhile is there to be stopped, or is refused
    known = SessionMember.objects.filter(session=session, user__username=username)
    if role != SessionMember.Role.WRITER:
        for member in known.select_related("user"):
            lifecycle.abort_runs_of(member.user, session, reason=SHARE_ENDED)
    if role is None:
        if known.delete()[0]:
            announce.notify_session_changed(session, "members")
        return
    if person is None:
        raise NotFound(f"there is nobody called {username!r} here")
    if person.pk == session.owner_id:
        raise InvalidRequest("it is yours already")
    if not known.exists() and SessionMember.objects.filter(session=session).count() >= MAX_MEMBERS:
        raise InvalidRequest(f"a conversation is shared with at most {MAX_MEMBERS} people")
    SessionMember.objects.update_or_create(session=session, user=person, defaults={"role": role})
    announce.notify_session_changed(session, "members")
