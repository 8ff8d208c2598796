"""Freeze everything, one agent or one run, and resume it. A row records it until it is lifted with a reason.

While a freeze is in force, no worker claims the runs it covers (claim_sql), no tool call starts (`check_not_frozen`), and workers
park such runs. Messages are still accepted and approvals decided; the runs they start or continue wait.
"""

import logging
from collections.abc import Iterable

from django.db import transaction
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from clawsite.infra.audit import actor as acting
from clawsite.infra.audit import log as audit_log
from clawsite.infra.audit.actor import Actor
from clawsite.infra.errors import Forbidden, InvalidRequest, NotFound
from sessions_app.events import announce
from sessions_app.models import Freeze, Run, RunWait, Session
from sessions_app.runs import waiting

log = logging.getLogger(__name__)

PERMISSION = "accounts.administer_gateway"
MAX_REASON_LENGTH = 500
MAX_SUBJECT_LENGTH = 64
MAX_RUN_DIGITS = 18  # digits; every database accepts a key of this size
_STARTS_LOCK = 0x0C1A_57A7  # arbitrary: shared by tool starts, exclusive for freezing


class RunFrozen(Exception):
    """This run is frozen and must not act."""

    def __init__(self, stop: Freeze) -> None:
        super().__init__(stop.describe)
        self.stop = stop


@transaction.atomic
def freeze(scope: str, subject: str = "", *, reason: str, by: User | None, by_name: str = "") -> tuple[Freeze, bool]:
    """Freeze the scope; return the freeze in force, and whether it is new. Without an account, `by_name` is the host's operator.

    Needs its own transaction: while it waits for tools that are starting, it must hold no other locks.
    """
    actor_name = _actor_name(by, by_name)
    scope, subject = _clean_scope(scope, subject)
    reason = _clean_reason(reason)
    sql.lock_advisory(_STARTS_LOCK)
    if existing := Freeze.objects.filter(scope=scope, subject=subject, lifted_at__isnull=True).first():
        return existing, False
    created = Freeze.objects.create(scope=scope, subject=subject, reason=reason, by=by, by_name=actor_name, at=clock.now())
    waiting.record_freezes()
    announce.notify_freezes_changed()
    _record_change("panic.stopped", created)
    return created, True


@transaction.atomic
def resume(scope: str, subject: str = "", *, reason: str, by: User | None, by_name: str = "") -> Freeze:
    """Lift a freeze. Runs that wait for nothing else are already ready; only this row held them."""
    actor_name, reason = _actor_name(by, by_name), _clean_reason(reason)
    stamp = {"lifted_at": clock.now(), "lifted_by": by, "lifted_by_name": actor_name, "lifted_reason": reason}
    freeze_row = Freeze.objects.filter(scope=scope, subject=subject, lifted_at__isnull=True).order_by("pk").first()
    if freeze_row is None or not Freeze.objects.filter(pk=freeze_row.pk, lifted_at__isnull=True).update(**stamp):
        raise NotFound(_("This is not frozen."))
    freeze_row.refresh_from_db()
    RunWait.objects.filter(kind=RunWait.Kind.FREEZE, reference=str(freeze_row.pk)).delete()
    announce.notify_freezes_changed()
    _record_change("panic.resumed", freeze_row)
    return freeze_row


@transaction.atomic
def close_freezes_of_ended_runs() -> int:
    """Lift freezes of single runs that have ended: they were stopped, or ended before their worker saw the freeze."""
    lifted = 0
    for stop in Freeze.objects.filter(scope=Freeze.Scope.RUN, lifted_at__isnull=True):
        if not Run.objects.filter(pk=int(stop.subject), status__in=Run.UNFINISHED).exists():
            resume(stop.scope, stop.subject, reason="the run has ended", by=None, by_name="Clawsite")
            lifted += 1
    return lifted


def list_active() -> list[Freeze]:
    """List freezes in force, widest scope first."""
    return sorted(Freeze.objects.filter(lifted_at__isnull=True), key=lambda each: (Freeze.Scope.values.index(each.scope), each.at))


def find_freeze(agent: str, run_pk: int) -> Freeze | None:
    """Find the freeze that holds a run; the widest if there are several."""
    return next((each for each in list_active() if each.covers(agent, run_pk)), None)


def is_frozen(agent: str, run_pk: int) -> bool:
    return find_freeze(agent, run_pk) is not None


def check_not_frozen(agent: str, run_pk: int) -> None:
    """Raise RunFrozen, or guarantee that no freeze commits before the caller's tool start does. Call it in that transaction."""
    # PostgreSQL would let a freeze commit between our check and our commit. SQLite has one writer at a time.
    sql.lock_advisory(_STARTS_LOCK, shared=True)
    if active := find_freeze(agent, run_pk):
        raise RunFrozen(active)


def count_still_running(stops: Iterable[Freeze], *, gone: Iterable[str] = ()) -> int:
    """Count frozen runs that a worker still holds: each is released within a second or two. `gone` are dead workers."""
    working = Run.objects.filter(status=Run.Status.RUNNING).exclude(worker__in=gone).values_list("session__agent", "pk")
    return sum(any(stop.covers(agent, pk) for stop in stops) for agent, pk in working)


def list_for_session(session: Session, stops: Iterable[Freeze]) -> list[Freeze]:
    """List the freezes that hold a session."""
    unfinished = Run.objects.filter(session=session, status__in=Run.UNFINISHED).values_list("pk", flat=True)
    keys = {str(pk) for pk in unfinished}
    return [stop for stop in stops if (stop.subject in keys if stop.scope == Freeze.Scope.RUN else stop.covers(session.agent, 0))]


def list_visible(user: User) -> list[Freeze]:
    """List all freezes for users who can lift them; others don't see freezes of single runs in sessions they can't see."""
    stops = list_active()
    keys = [int(stop.subject) for stop in stops if stop.scope == Freeze.Scope.RUN]
    if not keys or user.has_perm(PERMISSION):
        return stops
    visible = {str(pk) for pk in Run.objects.for_user(user).filter(pk__in=keys).values_list("pk", flat=True)}
    return [stop for stop in stops if stop.scope != Freeze.Scope.RUN or stop.subject in visible]


def may_freeze(user: User) -> bool:
    """Return whether the user can freeze: operators, never service accounts."""
    return user.is_active and not user.is_service and user.has_perm(PERMISSION)


def _actor_name(by: User | None, by_name: str) -> str:
    if by is not None and not may_freeze(by):
        raise Forbidden(_("Only operators can freeze or resume."))
    name = by.get_full_name() if by is not None else by_name
    if not name:
        raise InvalidRequest(_("The operator’s name is required."))
    return name[:150]


def _clean_reason(reason: str) -> str:
    reason = " ".join(reason.split())
    if not reason:
        raise InvalidRequest(_("A reason is required; people who are waiting will see it."))
    return reason[:MAX_REASON_LENGTH]


def _clean_scope(scope: str, subject: str) -> tuple[str, str]:
    if scope not in Freeze.Scope.values:
        raise InvalidRequest(_("Scope must be one of: %(scopes)s.") % {"scopes": ", ".join(Freeze.Scope.values)})
    if scope == Freeze.Scope.ALL:
        return scope, ""
    if not subject or len(subject) > MAX_SUBJECT_LENGTH:
        raise InvalidRequest(_("Name the agent or run to freeze."))
    if scope == Freeze.Scope.RUN:
        is_number = subject.isascii() and subject.isdecimal() and len(subject) <= MAX_RUN_DIGITS
        run = Run.objects.filter(pk=int(subject)).first() if is_number else None
        if run is None:
            raise NotFound(_("Run not found."))
        if run.status in Run.ENDED:
            raise InvalidRequest(_("This run has already ended."))
        return scope, str(run.pk)
    return scope, subject


def _record_change(action: str, stop: Freeze) -> None:
    """Record a freeze or its end in the audit log, in the same transaction."""
    lifted = action == "panic.resumed"
    by, name = (stop.lifted_by, stop.lifted_by_name) if lifted else (stop.by, stop.by_name)
    actor = acting.actor_for_user(by) if by else Actor("person", "", name)  # the operator at the command line
    audit_log.record(action, actor=actor, subject=(stop.scope, stop.subject), reason=stop.lifted_reason if lifted else stop.reason)
    log.info("%s: %s, by %s", action, stop, name)
