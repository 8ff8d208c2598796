"""A run's life cycle outside of workers: accepted once, stopped on request, made ready. Workers use queue.py."""

import hashlib
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import orjson
from django.conf import settings
from django.db import transaction
from django.dispatch import Signal
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from clawsite.infra.errors import Conflict, Forbidden, InvalidRequest, QueueFull
from clawsite.infra.observability import metrics
from clawsite.infra.reasons import Reason
from sessions_app import tables
from sessions_app.events import announce as events
from sessions_app.events.journal import NewEvent
from sessions_app.models import Run, Session, SessionMember
from sessions_app.origin import TokenLimits
from sessions_app.run_request import ORDINARY_REQUEST, Prompt, RunRequest, ToolResults
from sessions_app.runs import client_tools, hot_sql, lanes, tool_calls, waiting
from sessions_app.transcript import rewinds

MAX_RUN_ID_LENGTH = 200
MAX_TITLE_LENGTH = 80

run_ended = Signal()  # run_pk, reason; sent in the transaction that ends a run, unless it ends with an answer


@dataclass(frozen=True, slots=True)
class AcceptedRun:
    pk: int
    run_id: str
    session_id: UUID
    session_key: str
    status: str
    created: bool
    accepted_at_ms: int


@dataclass(frozen=True, slots=True)
class AbortResult:
    run_id: str
    pk: int
    ended: bool  # False: a worker holds the run and will confirm


@transaction.atomic
def accept_run(
    *,
    user: User,
    session: Session,
    run_id: str,
    prompt: str,
    request: RunRequest = ORDINARY_REQUEST,
    lane: str = lanes.MAIN,
    timeout_seconds: float | None = None,
) -> AcceptedRun:
    """Queue a request. The same run ID with the same request returns the first run; with a different request, raise Conflict."""
    _check_names(run_id, lane)
    submission = _Submission(user, session, run_id, _hash_request(session.id, prompt, request, lane))
    if first := submission.find_first():
        return first
    _check_may_write_now(user, session)
    _check_queue_has_room(user)
    if request.kind.changes_session:
        if first := submission.lock_and_find_first():
            return first
        request = _prepare_session(user, session, request)
    if user.key_limits:  # stay with the run, whichever worker recovers or resumes it
        request = replace(request, token_limits=TokenLimits.from_json(user.key_limits))
    inserted = hot_sql.insert_run(
        hot_sql.NewRun(
            session_id=session.id,
            owner_id=user.pk,
            sender=user.username,
            run_id=run_id,
            request_hash=submission.digest,
            lane=lane,
            prompt=prompt,
            title=_make_title(prompt, request),
            request=request,
            timeout_seconds=timeout_seconds,
        )
    )
    if inserted is None:  # another process was first with this run ID
        if first := submission.find_first():
            return first
        raise Conflict(_("A request with this idempotencyKey is in progress. Try again."), retryable=True)
    pk, batch = inserted
    events.announce(
        session_id=session.id, session_key=session.key, owner_id=session.owner_id, batch=batch, run_pk=pk, run_id=run_id
    )
    events.notify_workers(pk, "accepted")
    transaction.on_commit(metrics.runs_accepted.labels(lane).inc)
    return AcceptedRun(pk, run_id, session.id, session.key_for(user.pk), Run.Status.ACCEPTED, True, batch.ts)


@transaction.atomic
def request_abort(*, user: User, session: Session, run_id: str | None = None, reason: str = "rpc") -> list[AbortResult]:
    """Stop the runs of a session, or one of them. Queued and parked runs end here; the worker ends a running one.

    With the reason WITHDRAWN, stop only the user's own runs that haven't started; a run already stopped before it started is
    hidden too.
    """
    check_may_write(user, session)
    tables.lock_sessions([sql.uuid_value(session.id)])
    runs = Run.objects.filter(session=session, status__in=Run.UNFINISHED).order_by("id")
    if run_id is not None:
        runs = runs.filter(run_id=run_id)
    if reason == Run.WITHDRAWN:
        never_begun = Run.objects.filter(session=session, run_id=run_id, owner=user, steps=0, status=Run.Status.ABORTED)
        never_begun.update(reason=Run.WITHDRAWN)
        runs = runs.filter(status=Run.Status.ACCEPTED, owner=user)
    return [_abort_run(run, session, reason) for run in runs]


def abort_runs_of(person: User, session: Session, *, reason: str) -> None:
    """Stop one user's runs in a session that the caller has locked."""
    for run in Run.objects.filter(session=session, owner=person, status__in=Run.UNFINISHED).order_by("id"):
        _abort_run(run, session, reason)


def _abort_run(run: Run, session: Session, reason: str) -> AbortResult:
    if run.status == Run.Status.RUNNING:
        sql.execute(
            f"UPDATE {tables.RUN} SET abort_requested_at = {sql.now_expression()}, abort_reason = %s "
            "WHERE id = %s AND status = 'running'",
            [reason, run.pk],
        )
        events.notify_workers(run.pk, "abort")
        return AbortResult(run.run_id, run.pk, ended=False)
    end_unowned_run(run, session, Run.Status.ABORTED, reason)
    return AbortResult(run.run_id, run.pk, ended=True)


def find_stop_request(run_pk: int) -> str | None:
    """Return the reason of a stop request for a run, or None if there is none."""
    reason = Run.objects.filter(pk=run_pk, abort_requested_at__isnull=False).values_list("abort_reason", flat=True).first()
    return None if reason is None else reason or "rpc"


def end_unowned_run(run: Run, session: Session, to: Run.Status, reason: str, error: Reason | None = None) -> None:
    """End a run that no worker holds. Modules with state for it, such as approval requests, receive `run_ended`."""
    undecided, results = tool_calls.close_waiting(run.pk, reason) if run.status == Run.Status.WAITING else ([], [])
    batch = hot_sql.commit_step(
        hot_sql.RunStep(
            run_pk=run.pk,
            session_id=session.id,
            lease=None,
            to=to,
            reason=reason,
            error=error,
            events=[*undecided, build_end_event(to, reason, error)],
            entries=results,
            generation=run.generation,
        )
    )
    run_ended.send(Run, run_pk=run.pk, reason=reason)
    events.announce(
        session_id=session.id, session_key=session.key, owner_id=session.owner_id, batch=batch, run_pk=run.pk, run_id=run.run_id
    )
    events.notify_workers(run.pk, "ended")
    waiting.notify_ended(run.lane)
    transaction.on_commit(metrics.runs_ended.labels(to).inc)


def build_end_event(to: Run.Status, reason: str, error: Reason | None = None, **more: Any) -> NewEvent:
    """Build the last event of a run: `end`, with `aborted` for an abort, or `error`."""
    ended = {"endedAt": clock.now_ms(), **more}
    if to == Run.Status.FAILED:
        return NewEvent("lifecycle", {"phase": "error", "error": error.text if error else "", "kind": reason, **ended})
    return NewEvent("lifecycle", {"phase": "end", "aborted": to == Run.Status.ABORTED, "stopReason": reason or "stop", **ended})


def check_may_write(user: User, session: Session) -> None:
    """Raise Forbidden for users with read-only access."""
    if session.owner_id == user.pk:
        return
    if not SessionMember.objects.filter(session=session, user=user, role=SessionMember.Role.WRITER).exists():
        raise Forbidden(_("You have read-only access to this session. Ask its owner for write access."))


@dataclass(frozen=True, slots=True)
class _Submission:
    """One attempt to queue a request. The digest distinguishes a repeated request from a different one with the same run ID."""

    user: User
    session: Session
    run_id: str
    digest: str

    def find_first(self) -> AcceptedRun | None:
        """Return the run that an earlier attempt queued, if any."""
        rows = sql.fetch_rows(
            f"SELECT r.id, r.session_id, s.owner_id, s.key, r.status, r.accepted_at, r.request_hash FROM {tables.RUN} r "
            f"JOIN {tables.SESSION} s ON s.id = r.session_id WHERE r.owner_id = %s AND r.run_id = %s",
            [self.user.pk, self.run_id],
        )
        if not rows:
            return None
        pk, session_id, owner_id, key, status, accepted_at, digest = rows[0]
        if digest != self.digest:
            details = {"runId": self.run_id}
            raise Conflict(_("This idempotencyKey was used for a different request. Use a new one."), details=details)
        key = Session(id=sql.as_uuid(session_id), owner_id=owner_id, key=key).key_for(self.user.pk)
        moment = clock.to_ms(sql.as_datetime(accepted_at))
        return AcceptedRun(pk, self.run_id, sql.as_uuid(session_id), key, status, False, moment)

    def lock_and_find_first(self) -> AcceptedRun | None:
        """Lock the session, then look again: another process may have queued the request before we held the lock."""
        tables.lock_sessions([sql.uuid_value(self.session.id)])
        return self.find_first()


def _check_names(run_id: str, lane: str) -> None:
    if not run_id or len(run_id) > MAX_RUN_ID_LENGTH:
        raise InvalidRequest(f"idempotencyKey must have 1 to {MAX_RUN_ID_LENGTH} characters")
    if lane not in lanes.DEFAULT_MAX_RUNNING:
        raise InvalidRequest(f"unknown lane {lane!r}; use one of {', '.join(lanes.DEFAULT_MAX_RUNNING)}")


def _check_may_write_now(user: User, session: Session) -> None:
    if session.owner_id != user.pk:
        tables.lock_sessions([sql.uuid_value(session.id)])  # revoking the share either stops this run or has already taken effect
    check_may_write(user, session)


def _check_queue_has_room(user: User) -> None:
    queued = sql.fetch_row(f"SELECT count(*) FROM {tables.RUN} WHERE status = 'accepted' AND owner_id = %s", [user.pk])[0]
    if queued >= settings.MAX_QUEUED_PER_USER:
        raise QueueFull(
            _("You have %(count)d queued runs. Wait for some to finish, or stop them.") % {"count": queued},
            retryable=True,
            retry_after_ms=1000,
        )


def _prepare_session(user: User, session: Session, request: RunRequest) -> RunRequest:
    """Change the session as its kind requires, in the transaction that queues the run. The session is locked."""
    match request.kind:
        case Prompt(replaces=message_id):
            rewinds.rewind_before(user, session, message_id)
        case ToolResults() as given:
            return replace(request, kind=client_tools.accept_results(session, given))
    return request


def _make_title(prompt: str, request: RunRequest) -> str:
    """Make a session title from the first message: its text, or its attachment names."""
    if not request.kind.makes_title:
        return ""
    text = " ".join(prompt.split()) or ", ".join(block["name"] for block in request.attachments)
    return text[:MAX_TITLE_LENGTH]


def _hash_request(session_id: UUID, prompt: str, request: RunRequest, lane: str) -> str:
    body = orjson.dumps([str(session_id), prompt, request.to_comparable(), lane], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(body).hexdigest()
