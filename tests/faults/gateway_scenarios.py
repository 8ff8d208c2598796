"""Scenarios with a real server in this process and clients on real sockets: what clients receive, and when."""

import asyncio
import datetime as dt
from contextlib import asynccontextmanager
from typing import Any

from clawsite.gateway.delivery.hub_queries import DatabaseQueries
from clawsite.gateway.server import runtime
from clawsite.infra import bus, clock, db
from sessions_app import worker_tasks
from sessions_app.events import epoch
from sessions_app.models import Event, Run
from sessions_app.runs import queue
from sessions_app.runs.queue import ClaimedRun
from tests.faults.clients import EventRecorder
from tests.faults.connection import RawConnection
from tests.faults.history import CursorProbe, WatchedStream
from tests.faults.scenarios import PROMPT, WORDS, ScenarioContext, delta, rolled_back
from tests.harness.gateway import serve_gateway
from tests.harness.users import create_token

TIMEOUT = 3.0  # seconds; events take milliseconds, but never arrive when the code is broken on purpose
FLOOD = 1_200  # events of 8 KB: more than a socket's queue and the system's buffers hold
PIECE = "x" * 8_000


class ScenarioClients:
    """Clients of one scenario. Each records events from its subscription on."""

    def __init__(self, context: ScenarioContext, url: str) -> None:
        self._context, self._url = context, url
        self._token = create_token(context.user)
        self._connections: list[tuple[RawConnection, WatchedStream, EventRecorder]] = []

    async def follow(self, name: str, key: str, after: int = 0, **options: Any) -> RawConnection:
        watched = WatchedStream(name, key, self._context.user.pk, after)
        recorder = EventRecorder(watched)
        conn = await RawConnection.open(self._url, self._token, on_event=recorder.record, **options)
        self._context.history.watched.append(watched)
        self._connections.append((conn, watched, recorder))
        await conn.request("sessions.messages.subscribe", {"key": key, "fromStateVersion": after}, on_response=recorder.begin)
        return conn

    async def probe(self, key: str, place: int, **epoch: str) -> None:
        conn = await RawConnection.open(self._url, self._token)
        answer = await conn.request("sessions.messages.subscribe", {"key": key, "fromStateVersion": place, **epoch})
        self._context.history.probed.append(CursorProbe(key, place, bool(answer.get("resync_required"))))
        await conn.close()

    async def read(self, key: str, place: int, head: int) -> None:
        conn = await RawConnection.open(self._url, self._token)
        answer = await conn.request("sessions.history", {"sessionKey": key, "fromStateVersion": place})
        told = [frame["payload"]["cursor"] for frame in answer.get("events", [])]
        whole = told == list(range(place + 1, head + 1))
        self._context.history.probed.append(CursorProbe(key, place, bool(answer.get("resync_required")), whole))
        await conn.close()

    async def wait_for(self, cursor: int, *, of: RawConnection | None = None) -> None:
        """Wait until all clients have received this event or are closed. Times out, because a mutant may never send it."""
        for _ in range(int(TIMEOUT / 0.01)):
            if all(recorder.last >= cursor or conn.ended.is_set() for conn, _, recorder in self._connections if of in (None, conn)):
                return
            await asyncio.sleep(0.01)

    async def disconnect(self) -> None:
        for conn, watched, _ in self._connections:
            watched.frame_gap, watched.complete = conn.frame_gap, not conn.ended.is_set()
            conn.cut()
            await conn.ended.wait()
            watched.closed = conn.close_code


@asynccontextmanager
async def scenario_clients(context: ScenarioContext) -> Any:
    async with serve_gateway() as address:
        clients = ScenarioClients(context, f"ws://{address}/ws")
        yield clients
        await clients.disconnect()


async def a_transaction_is_rolled_back(context: ScenarioContext) -> None:
    """Clients must not receive what was never stored."""
    session = context.session()
    async with scenario_clients(context) as clients:
        await clients.follow("there from the beginning", session.key)
        await context.send(session, f"{session.key}-1")
        (claimed,) = await context.claim()
        await clients.wait_for(2)
        await db.write(rolled_back, queue.append_events, [(claimed, [delta("m0", "never stored")])])
        await context.stream(claimed, "m1", "".join(WORDS))
        await context.finish(claimed, "m1", say=False)
        await clients.follow("came late", session.key)
        await clients.wait_for(5)


async def the_rows_are_ahead_of_the_bus(context: ScenarioContext) -> None:
    """A client that reconnects receives from the rows what the bus delivers only later."""
    session = context.session()
    async with scenario_clients(context) as clients:
        await clients.follow("there from the beginning", session.key)
        await context.send(session, f"{session.key}-1")
        (claimed,) = await context.claim()
        await clients.wait_for(2)
        late: list[Any] = []
        publish, bus.publish = bus.publish, late.append
        await context.stream(claimed, "m1", WORDS[0])
        back = await clients.follow("came back", session.key, after=2)
        await clients.wait_for(3, of=back)
        bus.publish = publish
        for message in late:
            publish(message)
        await context.stream(claimed, "m1", WORDS[1], offset=3)
        await context.finish(claimed, "m1", say=False)
        await clients.wait_for(6)


async def the_bus_loses_a_message(context: ScenarioContext) -> None:
    session = context.session()
    async with scenario_clients(context) as clients:
        await clients.follow("there from the beginning", session.key)
        await context.send(session, f"{session.key}-1")
        (claimed,) = await context.claim()
        await clients.wait_for(2)
        await _stream_unpublished(context, claimed, WORDS[0])
        await context.stream(claimed, "m1", WORDS[1], offset=3)
        await context.finish(claimed, "m1", say=False)
        await clients.wait_for(6)


async def the_bus_loses_another_while_the_rows_are_read(context: ScenarioContext) -> None:
    """Events missing from the rows when they were read may have been written since."""
    session = context.session()
    read = DatabaseQueries.events_after
    async with scenario_clients(context) as clients:
        await clients.follow("there from the beginning", session.key)
        await context.send(session, f"{session.key}-1")
        (claimed,) = await context.claim()
        await clients.wait_for(2)

        async def slowly(rows: DatabaseQueries, session_id: str, cursor: int) -> Any:
            DatabaseQueries.events_after = read
            found = await read(rows, session_id, cursor)
            await _stream_unpublished(context, claimed, WORDS[1], offset=3)
            await context.stream(claimed, "m1", "hm", stream="thinking")
            await asyncio.sleep(0.05)  # the bus delivers the second while the earlier rows are still in transit
            return found

        DatabaseQueries.events_after = slowly
        await _stream_unpublished(context, claimed, WORDS[0])
        await (await runtime.get_runtime()).hub.poll()
        await clients.wait_for(5)
        await context.finish(claimed, "m1", say=False)
        await clients.wait_for(7)


async def _stream_unpublished(context: ScenarioContext, claimed: ClaimedRun, text: str, offset: int = 0) -> None:
    publish, bus.publish = bus.publish, lambda message: None
    await context.stream(claimed, "m1", text, offset)
    bus.publish = publish


async def a_place_that_does_not_exist(context: ScenarioContext) -> None:
    session = context.session()
    async with scenario_clients(context) as clients:
        await context.send(session, f"{session.key}-1")
        (claimed,) = await context.claim()
        await context.finish(claimed, "m1")
        await clients.probe(session.key, 1_000)


async def a_place_that_is_no_longer_kept(context: ScenarioContext) -> None:
    session = context.session()
    async with scenario_clients(context) as clients:
        await context.send(session, f"{session.key}-1")
        (claimed,) = await context.claim()
        await context.finish(claimed, "m1")
        await db.write(Event.objects.filter(session=session, cursor__lte=2).delete)
        await clients.probe(session.key, 1)
    context.keys.clear()  # the rows are incomplete: only the client's resync is checked
    context.history.sent.clear()


async def a_place_from_before_a_restore(context: ScenarioContext) -> None:
    """The restored log has grown past the cursor, with other events."""
    session = context.session()
    before = await db.read(epoch.current_epoch)
    async with scenario_clients(context) as clients:
        await context.send(session, f"{session.key}-1")
        (claimed,) = await context.claim()
        await context.finish(claimed, "m1")
        await db.write(epoch.start_new_epoch)
        await clients.probe(session.key, 2, epoch=before)


async def old_events_are_forgotten(context: ScenarioContext) -> None:
    """Old events of a run are deleted in a session where another run has been waiting since before it."""
    session = context.session()
    async with scenario_clients(context) as clients:
        for number in (1, 2):
            await context.send(session, f"{session.key}-{number}")
        (claimed,) = await context.claim()
        await context.finish(claimed, "m1")
        long_ago = clock.now() - dt.timedelta(days=365)
        await db.write(Run.objects.filter(pk=claimed.pk).update, ended_at=long_ago)
        await db.write(Event.objects.filter(session=session).update, ts=clock.to_ms(long_ago))
        await worker_tasks.delete_old_events()
        for place in range(5):
            await clients.read(session.key, place, head=6)
        (waiting,) = await context.claim()
        await context.finish(waiting, "m2")
    context.keys.clear()  # as above
    context.history.sent.clear()


async def one_client_does_not_read(context: ScenarioContext) -> None:
    """The slow client is closed with a reason, and the others receive everything."""
    session = context.session()
    async with scenario_clients(context) as clients:
        reads = await clients.follow("reads", session.key)
        deaf = await clients.follow("does not read", session.key, buffer=4096)
        deaf.pause()
        context.history.watched[-1].slow = context.history.watched[-1].flooded = True
        await context.send(session, f"{session.key}-1", PROMPT)
        (claimed,) = await context.claim()
        for number in range(FLOOD // 50):
            pieces = [delta("m1", PIECE, (number * 50 + i) * len(PIECE), "thinking") for i in range(50)]
            await db.write(queue.append_events, [(claimed, pieces)], alone=True)
            await clients.wait_for(2 + len(pieces) * (number + 1), of=reads)
        await context.finish(claimed, "m1")
        deaf.resume()
        await clients.wait_for(FLOOD + 5)
