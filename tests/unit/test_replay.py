"""Catching up on one connection: rows first, then live events, without repeats or gaps."""

from clawsite.gateway.delivery.hub import Hub
from clawsite.gateway.delivery.hub_queries import replay_events
from clawsite.gateway.protocol.events.frames import SessionName
from tests.unit.gateway_fakes import SESSION, Clock, FakeRows, Log, connection, payloads

NAME = SessionName("generation-1", "agent:main:main")


async def test_missed_and_live_events_arrive_once_in_order():
    log, clock = Log(), Clock()
    events = log.run(" ".join("abcdefghij"))
    log.commit(5)

    class Racing(FakeRows):
        """While the rows are read, the run continues and the bus delivers its events."""

        async def events_after(self, session_id, cursor):
            found = await super().events_after(session_id, cursor)
            if log.committed < 9:
                hub.receive_events(log.message(*events[log.committed : log.committed + 2]))
            return found

    rows = Racing(log)
    hub = Hub(rows, now=clock, later=clock.later)
    watcher = connection()
    hub.audience.add(watcher)
    watcher.subscriptions.start_replay(SESSION)
    await replay_events(rows, hub, watcher, SESSION, NAME, 2)
    await hub.settle()
    hub.receive_events(log.message(*events[log.committed :]))
    await hub.settle()
    assert [payload["cursor"] for payload in payloads(watcher, "agent")] == list(range(3, len(events) + 1))


async def test_late_bus_messages_are_dropped_after_replay():
    log, clock = Log(), Clock()
    events = log.run("a b c")
    log.commit()
    rows = FakeRows(log)
    hub = Hub(rows, now=clock, later=clock.later)
    watcher = connection()
    hub.audience.add(watcher)
    watcher.subscriptions.start_replay(SESSION)
    await replay_events(rows, hub, watcher, SESSION, NAME, 0)
    for event in events:
        hub.receive_events(log.message(event))
        await hub.settle()
    assert [payload["cursor"] for payload in payloads(watcher, "agent")] == [1, 2, 3, 4, 5, 6, 7]


async def test_replay_stops_after_access_is_revoked():
    log = Log()
    log.run("a b c d e f")
    log.commit()

    class TwoByTwo(FakeRows):
        async def events_after(self, session_id, cursor):
            found, _ = await super().events_after(session_id, cursor)
            return found[:2], len(found) > 2

    rows, answers = TwoByTwo(log), iter([True, False])
    hub = Hub(rows)
    watcher = connection()
    hub.audience.add(watcher)
    watcher.subscriptions.start_replay(SESSION)
    await replay_events(rows, hub, watcher, SESSION, NAME, 0, lambda: next(answers))
    assert [payload["cursor"] for payload in payloads(watcher, "agent")] == [1, 2, 3, 4]
    assert watcher.line.closing
    assert not watcher.subscriptions.is_replaying(SESSION)


async def test_replaying_connection_does_not_delay_others():
    log, clock = Log(), Clock()
    events = log.run("a b c")
    rows = FakeRows(log)
    hub = Hub(rows, now=clock, later=clock.later)
    held, other = connection(), connection()
    for watcher in (held, other):
        hub.audience.add(watcher)
    held.subscriptions.start_replay(SESSION)
    hub.receive_events(log.message(*events))
    await hub.settle()
    assert len(payloads(other, "agent")) == 7
    assert payloads(held, "agent") == []
