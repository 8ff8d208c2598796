"""Deliberate faults in what clients receive: each breaks exactly its promise, and without it the same scenario breaks none."""

import pytest
from django.db.models import QuerySet

from clawsite.gateway.delivery import catch_up
from clawsite.gateway.delivery.hub import Hub, SessionStream
from clawsite.gateway.delivery.send_queue import SendQueue
from clawsite.gateway.delivery.subscriptions import Subscriptions
from clawsite.infra import bus
from sessions_app.events import retention
from sessions_app.models import Event
from tests.faults import gateway_scenarios as stories
from tests.faults.checker import find_violations
from tests.faults.scenarios import ScenarioContext


class AtOnce:
    """A replacement for Django's `transaction` module that runs on_commit callbacks immediately."""

    @staticmethod
    def on_commit(call):
        call()


def publishes_before_commit(monkeypatch):
    monkeypatch.setattr(bus, "transaction", AtOnce)


def forgets_catch_up_position(monkeypatch):
    monkeypatch.setattr(Subscriptions, "_was_replayed", lambda *_: False)


def ignores_gaps(monkeypatch):
    async def poll(self):
        pass

    cannot_take = SessionStream.needs_rows
    monkeypatch.setattr(SessionStream, "needs_rows", lambda self, event: not self.views and cannot_take(self, event))
    monkeypatch.setattr(Hub, "poll", poll)


def treats_every_gap_as_real(monkeypatch):
    rest = Hub._deliver_rest
    monkeypatch.setattr(Hub, "_deliver_rest", lambda self, stream, heard: rest(self, stream, 1 << 60))


def accepts_any_cursor(monkeypatch):
    monkeypatch.setattr(catch_up, "_resolve_cursor", lambda session, place, epoch: int(place.at))


def accepts_any_epoch(monkeypatch):
    cursor = catch_up._resolve_cursor
    monkeypatch.setattr(
        catch_up, "_resolve_cursor", lambda session, place, epoch: cursor(session, place._replace(epoch=epoch), epoch)
    )


def deletes_events_from_the_middle(monkeypatch):
    monkeypatch.setattr(retention, "takewhile", filter)
    delete = QuerySet.delete

    def only_the_old(found):
        return delete(found.filter(run__ended_at__isnull=False) if found.model is Event else found)

    monkeypatch.setattr(QuerySet, "delete", only_the_old)


def queues_without_limit(monkeypatch):
    monkeypatch.setattr(SendQueue, "is_full", property(lambda self: False))


MUTANTS = [
    ("R10 R13", stories.a_transaction_is_rolled_back, publishes_before_commit),
    ("R10", stories.the_rows_are_ahead_of_the_bus, forgets_catch_up_position),
    ("R10", stories.the_bus_loses_a_message, ignores_gaps),
    ("R10", stories.the_bus_loses_another_while_the_rows_are_read, treats_every_gap_as_real),
    ("R11", stories.a_place_that_does_not_exist, accepts_any_cursor),
    ("R11", stories.a_place_that_is_no_longer_kept, accepts_any_cursor),
    ("R11", stories.a_place_from_before_a_restore, accepts_any_epoch),
    ("R11", stories.old_events_are_forgotten, deletes_events_from_the_middle),
    ("R12", stories.one_client_does_not_read, queues_without_limit),
]


async def promises_broken(scenario, user, make_session) -> set[str]:
    context = ScenarioContext(user, make_session)
    await scenario(context)
    return {violation.promise for violation in find_violations(*context.result())}


@pytest.mark.parametrize(("promises", "scenario", "mutate"), MUTANTS, ids=[scenario.__name__ for _, scenario, _ in MUTANTS])
async def test_gateway_mutation_violates_its_invariant(promises, scenario, mutate, user, make_session, settings, monkeypatch):
    settings.POLL_SECONDS = 60.0  # otherwise the poll would find the events in time and hide the fault
    assert await promises_broken(scenario, user, make_session) == set()
    with monkeypatch.context() as patched:
        mutate(patched)
        broken = await promises_broken(scenario, user, make_session)
    assert broken == set(promises.split())
