"""Deliberate faults in the code: each breaks exactly its promise, and without it the same scenario breaks none."""

from collections import Counter
from dataclasses import replace

import pytest
from django.db import connection
from django.db.models import F

from clawsite.infra import db, sql
from sessions_app.models import Event, Run
from sessions_app.runs import claim_sql, hot_sql, lifecycle
from tests.faults import scenarios
from tests.faults.checker import find_violations
from tests.faults.scenarios import ScenarioContext

pytestmark = pytest.mark.usefixtures("database")


def acknowledges_before_commit(monkeypatch):
    from django.db import DatabaseError, transaction

    def commit(group):
        try:
            with transaction.atomic():
                for operation in group:
                    operation.result = operation.run()
                db._notify_callers(group)
        except DatabaseError:
            pass

    monkeypatch.setattr(db, "_commit", commit)


def retries_after_unknown_outcome(monkeypatch):
    """After a failed commit, each operation is repeated alone, whatever the failure was."""
    commit = db._commit

    def again(group):
        commit(group)
        if len(group) > 1 and any(operation.error for operation in group):
            for operation in group:
                operation.error = None
                commit([operation])

    monkeypatch.setattr(db, "_commit", again)


def checks_key_without_constraint(monkeypatch):
    """Without the constraint, two concurrent checks both find nothing."""
    rows = sql.fetch_rows
    monkeypatch.setattr(
        sql, "fetch_rows", lambda text, values=(): rows(text.replace("ON CONFLICT (owner_id, run_id) DO NOTHING", ""), values)
    )
    monkeypatch.setattr(lifecycle._Submission, "find_first", lambda _: None)


def ignores_request_body(monkeypatch):
    monkeypatch.setattr(lifecycle, "_hash_request", lambda *_: "the same")


def writes_without_fence(monkeypatch):
    step, append = hot_sql.commit_step, hot_sql.append_events

    def lease_of(pk):
        return Run.objects.values_list("lease_token", flat=True).get(pk=pk)

    monkeypatch.setattr(hot_sql, "commit_step", lambda what: step(replace(what, lease=lease_of(what.run_pk))))
    monkeypatch.setattr(
        hot_sql, "append_events", lambda batch: append([replace(each, lease=lease_of(each.run_pk)) for each in batch])
    )


def claims_newest_first(monkeypatch):
    rows = sql.fetch_rows
    monkeypatch.setattr(sql, "fetch_rows", lambda text, values=(): rows(text.replace("e.id < r.id", "e.id > r.id"), values))


def ignores_lane_maximum(monkeypatch):
    row = sql.fetch_row
    monkeypatch.setattr(sql, "fetch_row", lambda text, values=(): (64,) if "max_running" in text else row(text, values))


def never_recovers(monkeypatch):
    monkeypatch.setattr(claim_sql, "recover_runs", lambda **_: [])


def recovers_forever(monkeypatch):
    from django.conf import settings

    monkeypatch.setattr(settings, "MAX_RESCUES", 99)


def numbers_events_outside_transaction(monkeypatch):
    """Rolled back operations have used up their numbers."""
    append, tries = hot_sql.append_events, Counter()

    def numbered(batch):
        told = append(batch)
        for each in batch:
            tries[each.run_pk] += 1
            if tries[each.run_pk] > 1:
                count = len(each.events)
                Event.objects.filter(run=each.run_pk, seq__gte=told[each.run_pk].first_seq).update(seq=F("seq") + count)
                Run.objects.filter(pk=each.run_pk).update(seq=F("seq") + count)
        return told

    monkeypatch.setattr(hot_sql, "append_events", numbered)


MUTANTS = [
    ("R1", scenarios.a_commit_fails, acknowledges_before_commit),
    ("R2", scenarios.many_send_the_same, checks_key_without_constraint),
    ("R2", scenarios.the_same_key_with_another_body, ignores_request_body),
    ("R3 text", scenarios.a_frozen_worker_wakes_up, writes_without_fence),
    ("R4", scenarios.two_messages_wait_in_one_session, claims_newest_first),
    ("R4", scenarios.more_runs_than_the_lane_holds, ignores_lane_maximum),
    ("R5", scenarios.a_worker_dies, never_recovers),
    ("R8", scenarios.a_run_kills_its_workers, recovers_forever),
    ("text", scenarios.the_answer_to_a_commit_is_lost, retries_after_unknown_outcome),
    ("R9", scenarios.a_neighbour_in_the_commit_fails, numbers_events_outside_transaction),
]


@pytest.fixture
def constraint_dropped(request, database):
    """For the mutant that drops the constraint. It is restored before the next test."""
    constraint = next(each for each in Run._meta.constraints if each.name == "one_run_per_owner_and_key")

    def drop():
        everything = Run._meta.constraints
        # SQLite rebuilds the table from the model.
        Run._meta.constraints = [each for each in everything if each is not constraint]
        try:
            with connection.schema_editor() as editor:
                editor.remove_constraint(Run, constraint)
        finally:
            Run._meta.constraints = everything
        request.addfinalizer(make_again)

    def make_again():
        db.close()
        Event.objects.all().delete()
        Run.objects.all().delete()
        with connection.schema_editor() as editor:
            editor.add_constraint(Run, constraint)

    return drop


async def promises_broken(scenario, user, make_session) -> set[str]:
    context = ScenarioContext(user, make_session)
    await scenario(context)
    rows, history = context.result()
    return {violation.promise for violation in find_violations(replace(rows, most_rescues=3), history)}


@pytest.mark.parametrize(("promises", "scenario", "mutate"), MUTANTS, ids=[mutate.__name__ for _, _, mutate in MUTANTS])
async def test_code_mutation_violates_its_invariant(
    promises, scenario, mutate, user, make_session, constraint_dropped, monkeypatch
):
    assert await promises_broken(scenario, user, make_session) == set()
    db.close()
    if mutate is checks_key_without_constraint:
        constraint_dropped()
    with monkeypatch.context() as patched:
        mutate(patched)
        broken = await promises_broken(scenario, user, make_session)
        db.close()
    assert broken == set(promises.split())
