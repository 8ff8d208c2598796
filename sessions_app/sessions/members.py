"""Members of shared sessions: who they are, and who can change that."""

from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _
from typing_extensions import TypedDict

from clawsite.accounts.models import User
from clawsite.infra import sql
from clawsite.infra.errors import Forbidden, InvalidRequest, NotFound
from sessions_app import tables
from sessions_app.events import announce
from sessions_app.models import Session, SessionMember
from sessions_app.models.session import SessionQuerySet
from sessions_app.runs import lifecycle

MAX_MEMBERS = 50  # per session
SHARE_ENDED = "share-ended"  # end reason of a run whose user lost write access


class Member(TypedDict):
    username: str
    name: str
    role: str  # owner, writer or viewer


def filter_shared_with(user: User, found: SessionQuerySet) -> SessionQuerySet:
    """Keep the user's own sessions and those shared with them; sessions visible only by permission don't count."""
    return found.filter(Q(owner=user) | Q(pk__in=SessionMember.objects.filter(user=user).values("session_id")))


def list_members(session: Session) -> list[Member]:
    """List the owner, then all other members by name."""
    others = SessionMember.objects.filter(session=session).select_related("user").order_by("user__username")
    return [_to_member(session.owner, "owner"), *(_to_member(each.user, each.role) for each in others)]


def _to_member(user: User, role: str) -> Member:
    return Member(username=user.username, name=user.get_full_name() or user.username, role=role)


@transaction.atomic
def share(user: User, session: Session, username: str, role: str | None) -> None:
    """Let a user view a session or write in it; a `role` of None revokes access. The owner decides; members can leave.

    When a user loses write access, their runs there are stopped, including queued ones.
    """
    leaves = role is None and username == user.username
    if session.owner_id != user.pk and not leaves:
        raise Forbidden(_("Only the owner can share this chat."))
    person = User.objects.filter(username=username, is_active=True, is_service=False).first()
    tables.lock_sessions([sql.uuid_value(session.id)])  # a run they start concurrently is either stopped below or denied
    existing = SessionMember.objects.filter(session=session, user__username=username)
    if role != SessionMember.Role.WRITER:
        for member in existing.select_related("user"):
            lifecycle.abort_runs_of(member.user, session, reason=SHARE_ENDED)
    if role is None:
        if existing.delete()[0]:
            announce.notify_session_changed(session, "members")
        return
    if person is None:
        raise NotFound(_("User not found: %(username)s") % {"username": username})
    if person.pk == session.owner_id:
        raise InvalidRequest(_("You already own this chat."))
    if not existing.exists() and SessionMember.objects.filter(session=session).count() >= MAX_MEMBERS:
        raise InvalidRequest(_("A chat can be shared with at most %d people.") % MAX_MEMBERS)
    SessionMember.objects.update_or_create(session=session, user=person, defaults={"role": role})
    announce.notify_session_changed(session, "members")
