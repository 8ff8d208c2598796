"""What parked runs wait for, as rows: park a run, settle what it waits for, and make it ready to continue.

A run becomes ready when all waits of one alternative have ended. Freezes are recorded as waits too, so that one
query explains why a run doesn't continue, but they only keep a run from being claimed (claim_sql): lifting a freeze settles no
other wait, and settling the others doesn't start a frozen run.

The app that owns the referenced rows registers their kind in `AppConfig.ready()`. Locks are taken in the order session, run, wait.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet

from clawsite.infra import bus, clock, sql
from clawsite.infra.bus import BusMessage
from sessions_app import tables
from sessions_app.events import announce as events
from sessions_app.events.journal import NewEvent
from sessions_app.models import Freeze, Run, RunWait
from sessions_app.runs import hot_sql
from sessions_app.runs.announce import announce_run
from sessions_app.runs.claim_sql import FREEZE_HOLDS_RUN, UNFINISHED
from sessions_app.runs.lanes import CHILD_LANES
from sessions_app.runs.types import ClaimedRun
from sessions_app.tables import FREEZE, RUN, RUN_WAIT

log = logging.getLogger(__name__)

Kind = RunWait.Kind
MAX_KEY_DIGITS = 18  # every database accepts a key of this size
MAX_REFERENCE_LENGTH = RunWait._meta.get_field("reference").max_length or 0


@dataclass(frozen=True)
class WaitsDue(BusMessage, kind="wait"):
    """Something a parked run waits for may have happened. Workers read the rows."""


@dataclass(frozen=True, slots=True)
class Wait:
    kind: Kind
    reference: str
    deadline: float | None = None  # database time
    alternative: int = 0


@dataclass(frozen=True, slots=True)
class WaitKind:
    """What the owner of the referenced rows knows about them.

    `find_settled` returns which of the references are settled. The owner calls `settle` in the transaction that settles a row,
    under the lock of the run's session. An owner that can't take this lock makes the kind `polled` and calls `notify_due` instead:
    a periodic task then checks all references. `expire` records on the referenced row that a run's deadline has passed.
    `list_open` returns the rows that an undecided call of a run waits for. `accepts` says whether a reference that a tool returns
    is well-formed.
    """

    find_settled: Callable[[Collection[str]], Collection[str]]
    polled: bool = False
    expire: Callable[[str], None] = lambda reference: None
    list_open: Callable[[int], Sequence[Wait]] = lambda run_pk: ()
    accepts: Callable[[str], bool] = bool


def _find_ended_runs(references: Collection[str]) -> Collection[str]:
    """Of these runs, return those that have ended or were deleted."""
    unfinished = Run.objects.filter(pk__in=[int(reference) for reference in references], status__in=Run.UNFINISHED)
    return set(references) - {str(pk) for pk in unfinished.values_list("pk", flat=True)}


def _is_run_key(reference: str) -> bool:
    return reference.isascii() and reference.isdecimal() and len(reference) <= MAX_KEY_DIGITS


# The session of another run can't be locked by the transaction that ends this one: sessions are locked in key order.
_kinds: dict[str, WaitKind] = {Kind.CHILD: WaitKind(_find_ended_runs, polled=True, accepts=_is_run_key)}
_failing: set[str] = set()  # kinds whose owner's last failure was logged


def register_kind(kind: Kind, what: WaitKind) -> None:
    """Register the owner of a kind. Raise ValueError if another module owns it."""
    if kind in _kinds and (owner := _kinds[kind].find_settled.__module__) != what.find_settled.__module__:
        raise ValueError(f"the wait kind {kind} is already registered by {owner}")
    _kinds[kind] = what


def check_wait(kind: str, reference: str) -> None:
    """Raise ValueError unless a run can wait for this."""
    if kind not in _kinds:
        raise ValueError(f"no app has registered the wait kind {kind!r}")
    if not isinstance(reference, str) or len(reference) > MAX_REFERENCE_LENGTH or not _kinds[kind].accepts(reference):
        raise ValueError(f"invalid reference of a wait of kind {kind}")


def list_open(run_pk: int) -> list[Wait]:
    """Return what the undecided calls of a run wait for."""
    return [wait for what in _kinds.values() for wait in what.list_open(run_pk)]


def add_waits(run_pk: int, waits: Sequence[Wait]) -> None:
    """Record what a run is going to wait for, before it is parked."""
    now = clock.now()
    RunWait.objects.bulk_create(
        [
            RunWait(
                run_id=run_pk,
                kind=wait.kind,
                reference=wait.reference,
                alternative=wait.alternative,
                deadline=wait.deadline,
                created_at=now,
            )
            for wait in {(wait.kind, wait.reference): wait for wait in waits}.values()
        ],
        update_conflicts=True,
        unique_fields=["run", "kind", "reference"],
        update_fields=["alternative", "deadline"],
    )


def park(claimed: ClaimedRun, reason: str, waits: Sequence[Wait]) -> None:
    """Park the run: it keeps the session's turn, but no worker and no lane slot. `reason` is the kind shown to clients.

    The run is ready at once if nothing is left to wait for. The waits replace all others of the run, except freezes.
    """
    _commit_park(claimed, reason, [])
    RunWait.objects.filter(run_id=claimed.pk).exclude(kind=Kind.FREEZE).delete()
    add_waits(claimed.pk, waits)
    record_freezes(run_pk=claimed.pk)
    if not waits:
        make_ready([claimed.pk])
    for kind in {wait.kind for wait in waits} & _kinds.keys():
        # A row settled before this commit found no wait of a parked run.
        settled = _kinds[kind].find_settled([wait.reference for wait in waits if wait.kind == kind])
        _close(RunWait.objects.filter(run_id=claimed.pk, kind=kind, reference__in=settled))
        if _kinds[kind].polled:
            notify_due()


def park_frozen(claimed: ClaimedRun, *, before: Sequence[NewEvent] = ()) -> None:
    """Park a frozen run. It is ready immediately: only the freeze prevents a claim, so lifting it is enough, even if that
    happened a moment ago.
    """
    _commit_park(claimed, Kind.FREEZE, before)
    record_freezes(run_pk=claimed.pk)
    make_ready([claimed.pk])


def _commit_park(claimed: ClaimedRun, reason: str, before: Sequence[NewEvent]) -> None:
    step = hot_sql.RunStep(
        claimed.pk,
        claimed.session_id,
        claimed.lease,
        to=Run.Status.WAITING,
        events=[*before, NewEvent("lifecycle", {"phase": "waiting", "reason": reason})],
    )
    announce_run(claimed, hot_sql.commit_step(step))
    events.notify_workers(claimed.pk, "parked")


def record_freezes(*, run_pk: int | None = None) -> None:
    """Record the freezes in force as waits of the parked runs they cover, or of one of them.

    Workers repeat this (`refresh_freezes`): on PostgreSQL a run can park while a freeze commits, and neither sees the other.
    """
    one, values = ("AND c.id = %s", [run_pk]) if run_pk is not None else ("", [])
    sql.execute(
        f"""
        INSERT INTO {RUN_WAIT} (run_id, kind, reference, alternative, created_at)
        SELECT c.id, '{Kind.FREEZE}', CAST(f.id AS varchar(64)), 0, f.at FROM {FREEZE} f JOIN {RUN} c ON {FREEZE_HOLDS_RUN}
        WHERE c.status IN {UNFINISHED} AND c.status = 'waiting' {one}
        ON CONFLICT (run_id, kind, reference) DO NOTHING
        """,
        values,
    )


def has_freezes() -> bool:
    """Return whether `refresh_freezes` may have something to do."""
    return Freeze.objects.filter(lifted_at__isnull=True).exists() or RunWait.objects.filter(kind=Kind.FREEZE).exists()


def refresh_freezes() -> None:
    """Record the freezes in force, and delete waits for lifted ones: they were recorded while their freeze was lifted."""
    record_freezes()
    lifted = RunWait.objects.filter(kind=Kind.FREEZE).exclude(
        reference__in=[str(pk) for pk in Freeze.objects.filter(lifted_at__isnull=True).values_list("pk", flat=True)]
    )
    if run_pks := list(lifted.values_list("run_id", flat=True)):
        tables.lock_runs(run_pks)
        lifted.filter(run__in=run_pks).delete()


@transaction.atomic
def settle(kind: Kind, reference: str) -> None:
    """Delete the waits for this reference; runs that don't wait for anything else become ready."""
    _close(RunWait.objects.filter(kind=kind, reference=reference))


@contextmanager
def _isolate(kind: str) -> Iterator[None]:
    """Keep a failure of a kind's owner from stopping deadlines and other kinds. Only its first failure in a row is logged."""
    try:
        with transaction.atomic():
            yield
    except Exception:
        if kind not in _failing:
            log.exception("waits of kind %s could not be checked", kind)
        _failing.add(kind)
    else:
        _failing.discard(kind)


def list_due() -> list[int]:
    """List the waits that `settle_due` has to close: those past their deadline, and settled ones of polled kinds."""
    due = {pk for (pk,) in sql.fetch_rows(f"SELECT id FROM {RUN_WAIT} WHERE deadline <= {sql.now_expression()}")}
    for kind, what in _kinds.items():
        waits = RunWait.objects.filter(kind=kind)
        if what.polled and (references := set(waits.values_list("reference", flat=True))):
            with _isolate(kind):
                settled = what.find_settled(references)
                due.update(waits.filter(reference__in=settled).values_list("pk", flat=True) if settled else ())
    return sorted(due)


@transaction.atomic
def settle_due(pks: Sequence[int]) -> None:
    """Close the waits that `list_due` returned. Safe to run on several workers at once."""
    now, over = sql.db_now(), []
    for wait in RunWait.objects.filter(pk__in=pks):
        what = _kinds.get(wait.kind)
        is_over = wait.deadline is not None and wait.deadline <= now
        if what:
            with _isolate(wait.kind):
                is_settled = bool(what.find_settled([wait.reference]))
                if is_over and not is_settled:
                    what.expire(wait.reference)
                is_over = is_over or is_settled
        if is_over:
            over.append(wait.pk)
    _close(RunWait.objects.filter(pk__in=over))


def notify_due() -> None:
    """Hint to the workers that a wait of a polled kind may be settled."""
    bus.publish_on_commit(WaitsDue())


def notify_ended(lane: str) -> None:
    """Hint that a run of this lane has ended, in case another run waits for it."""
    if lane in CHILD_LANES:
        notify_due()


def _close(waits: "QuerySet[RunWait]") -> None:
    closing = list(waits.values_list("pk", "run_id"))
    if not closing:
        return
    tables.lock_runs([run_pk for _, run_pk in closing])
    pks = [pk for pk, _ in closing]
    over = set(sql.fetch_rows(f"DELETE FROM {RUN_WAIT} WHERE id IN ({sql.placeholders(pks)}) RETURNING run_id, alternative", pks))
    left = RunWait.objects.filter(run__in={run_pk for run_pk, _ in over}).exclude(kind=Kind.FREEZE)
    over.difference_update(left.values_list("run_id", "alternative"))
    if ready := _mark_ready(sorted({run_pk for run_pk, _ in over})):
        left.filter(run__in=ready).delete()  # the other alternatives


def make_ready(run_pks: Sequence[int]) -> int:
    """Mark parked runs as ready to continue, whatever else they wait for."""
    return len(_mark_ready(run_pks))


def _mark_ready(run_pks: Sequence[int]) -> list[int]:
    if not run_pks:
        return []
    changed = sql.fetch_rows(
        f"UPDATE {RUN} SET ready_at = {sql.now_expression()} "
        f"WHERE id IN ({sql.placeholders(run_pks)}) AND status = 'waiting' RETURNING id",
        run_pks,
    )
    ready = [pk for (pk,) in changed]
    for pk in ready:
        events.notify_workers(pk, "ready")
    return ready
