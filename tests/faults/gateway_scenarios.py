"""Stories with a real server in this process and clients on real sockets: what they are told, and when."""

import asyncio
import datetime as dt
from contextlib import asynccontextmanager
from typing import Any

from agents import maintenance
from clawsite.gateway.delivery.hub_queries import DatabaseQueries
from clawsite.gateway.server import runtime
from clawsite.infra import bus, clock, db
from sessions_app.events import epoch
from sessions_app.models import Event, Run
from sessions_app.runs import queue
from sessions_app.runs.queue import ClaimedRun
from tests.faults.clients import EventRecorder
from tests.faults.connection import RawConnection
from tests.faults.history import CursorProbe, WatchedStream
from tests.faults.scenarios import PROMPT, WORDS, Scenario, delta, rolled_back
from tests.harness.gateway import serve_gateway
from tests.harness.users import create_token

PATIENCE = 3.0  # for what never comes when the code is broken on purpose; what comes takes milliseconds
FLOOD = 1_200  # events of 8 KB: more than the queue of a socket and the buffers of the system hold
PIECE = "x" * 8_000


class ScenarioClients:
    """Clients of one story. Each is written down from the moment it follows the session."""

    def __init__(self, story: Scenario, url: str) -> None:
        self._story, self._url = story, url
        self._token = create_token(story.user)
        self._lines: list[tuple[RawConnection, WatchedStream, EventRecorder]] = []

    async def follow(self, name: str, key: str, after: int = 0, **options: Any) -> RawConnection:
        watched = WatchedStream(name, key, self._story.user.pk, after)
        ear = EventRecorder(watched)
        line = await RawConnection.open(self._url, self._token, hear=ear.hear, **options)
        self._story.history.watched.append(watched)
        self._lines.append((line, watched, ear))
        await line.request("sessions.messages.subscribe", {"key": key, "fromStateVersion": after}, at_answer=ear.begin)
        return line

    async def probe(self, key: str, place: int, **epoch: str) -> None:
        line = await RawConnection.open(self._url, self._token)
        answer = await line.request("sessions.messages.subscribe", {"key": key, "fromStateVersion": place, **epoch})
        self._story.history.probed.append(CursorProbe(key, place, bool(answer.get("resync_required"))))
        await line.close()

    async def read(self, key: str, place: int, head: int) -> None:
        line = await RawConnection.open(self._url, self._token)
        answer = await line.request("sessions.history", {"sessionKey": key, "fromStateVersion": place})
        told = [frame["payload"]["cursor"] for frame in answer.get("events", [])]
        whole = told == list(range(place + 1, head + 1))
        self._story.history.probed.append(CursorProbe(key, place, bool(answer.get("resync_required")), whole))
        await line.close()

    async def heard(self, cursor: int, *, of: RawConnection | None = None) -> None:
        """Until everybody has got so far, or has been cut off. Not for ever: what a mutant does not tell never comes."""
        for _ in range(int(PATIENCE / 0.01)):
            if all(ear.last >= cursor or line.ended.is_set() for line, _, ear in self._lines if of in (None, line)):
                return
            await asyncio.sleep(0.01)

    async def leave(self) -> None:
        for line, watched, _ in self._lines:
            watched.torn, watched.to_the_end = line.torn, not line.ended.is_set()
            line.cut()
            await line.ended.wait()
            watched.closed = line.close_code


@asynccontextmanager
async def scenario_clients(story: Scenario) -> Any:
    async with serve_gateway() as address:
        clients = ScenarioClients(story, f"ws://{address}/ws")
        yield clients
        await clients.leave()


async def a_transaction_is_rolled_back(story: Scenario) -> None:
    """Nobody may hear of what was never stored."""
    session = story.session()
    async with scenario_clients(story) as clients:
        await clients.follow("there from the beginning", session.key)
        await story.send(session, f"{session.key}-1")
        (claimed,) = await story.claim()
        await clients.heard(2)
        await db.write(rolled_back, queue.append_events, [(claimed, [delta("m0", "never stored")])])
        await story.say(claimed, "m1", "".join(WORDS))
        await story.finish(claimed, "m1", say=False)
        await clients.follow("came late", session.key)
        await clients.heard(5)


async def the_rows_are_ahead_of_the_bus(story: Scenario) -> None:
    """A client that comes back is given from the rows what the bus will bring only later."""
    session = story.session()
    async with scenario_clients(story) as clients:
        await clients.follow("there from the beginning", session.key)
        await story.send(session, f"{session.key}-1")
        (claimed,) = await story.claim()
        await clients.heard(2)
        late: list[Any] = []
        publish, bus.publish = bus.publish, late.append
        await story.say(claimed, "m1", WORDS[0])
        back = await clients.follow("came back", session.key, after=2)
        await clients.heard(3, of=back)
        bus.publish = publish
        for message in late:
            publish(message)
        await story.say(claimed, "m1", WORDS[1], offset=3)
        await story.finish(claimed, "m1", say=False)
        await clients.heard(6)


async def the_bus_loses_a_message(story: Scenario) -> None:
    session = story.session()
    async with scenario_clients(story) as clients:
        await clients.follow("there from the beginning", session.key)
        await story.send(session, f"{session.key}-1")
        (claimed,) = await story.claim()
        await clients.heard(2)
        await _say_unheard(story, claimed, WORDS[0])
        await story.say(claimed, "m1", WORDS[1], offset=3)
        await story.finish(claimed, "m1", say=False)
        await clients.heard(6)


async def the_bus_loses_another_while_the_rows_are_read(story: Scenario) -> None:
    """What the rows did not have when they were read may have been written since."""
    session = story.session()
    read = DatabaseQueries.events_after
    async with scenario_clients(story) as clients:
        await clients.follow("there from the beginning", session.key)
        await story.send(session, f"{session.key}-1")
        (claimed,) = await story.claim()
        await clients.heard(2)

        async def slowly(rows: DatabaseQueries, session_id: str, cursor: int) -> Any:
            DatabaseQueries.events_after = read
            found = await read(rows, session_id, cursor)
            await _say_unheard(story, claimed, WORDS[1], offset=3)
            await story.say(claimed, "m1", "hm", stream="thinking")
            await asyncio.sleep(0.05)  # the bus brings the second, while the rows of before are still on their way
            return found

        DatabaseQueries.events_after = slowly
        await _say_unheard(story, claimed, WORDS[0])
        await (await runtime.get_runtime()).hub.poll()
        await clients.heard(5)
        await story.finish(claimed, "m1", say=False)
        await clients.heard(7)


async def _say_unheard(story: Scenario, claimed: ClaimedRun, text: str, offset: int = 0) -> None:
    publish, bus.publish = bus.publish, lambda message: None
    await story.say(claimed, "m1", text, offset)
    bus.publish = publish


async def a_place_that_does_not_exist(story: Scenario) -> None:
    session = story.session()
    async with scenario_clients(story) as clients:
        await story.send(session, f"{session.key}-1")
        (claimed,) = await story.claim()
        await story.finish(claimed, "m1")
        await clients.probe(session.key, 1_000)


async def a_place_that_is_no_longer_kept(story: Scenario) -> None:
    session = story.session()
    async with scenario_clients(story) as clients:
        await story.send(session, f"{session.key}-1")
        (claimed,) = await story.claim()
        await story.finish(claimed, "m1")
        await db.write(Event.objects.filter(session=session, cursor__lte=2).delete)
        await clients.probe(session.key, 1)
    story.keys.clear()  # the rows are not whole any more: only what the client was told of that is judged
    story.history.sent.clear()


async def a_place_from_before_a_restore(story: Scenario) -> None:
    """The restored log has grown past it meanwhile, with other events."""
    session = story.session()
    before = await db.read(epoch.current_epoch)
    async with scenario_clients(story) as clients:
        await story.send(session, f"{session.key}-1")
        (claimed,) = await story.claim()
        await story.finish(claimed, "m1")
        await db.write(epoch.start_new_epoch)
        await clients.probe(session.key, 2, epoch=before)


async def old_events_are_forgotten(story: Scenario) -> None:
    """Those of a run that ended long ago, in a session where another has been waiting since before it."""
    session = story.session()
    async with scenario_clients(story) as clients:
        for number in (1, 2):
            await story.send(session, f"{session.key}-{number}")
        (claimed,) = await story.claim()
        await story.finish(claimed, "m1")
        long_ago = clock.now() - dt.timedelta(days=365)
        await db.write(Run.objects.filter(pk=claimed.pk).update, ended_at=long_ago)
        await db.write(Event.objects.filter(session=session).update, ts=clock.to_ms(long_ago))
        await maintenance.delete_old_events()
        for place in range(5):
            await clients.read(session.key, place, head=6)
        (waiting,) = await story.claim()
        await story.finish(waiting, "m2")
    story.keys.clear()  # as above
    story.history.sent.clear()


async def one_client_does_not_read(story: Scenario) -> None:
    """It is cut off, with a word, and the others are told everything."""
    session = story.session()
    async with scenario_clients(story) as clients:
        reads = await clients.follow("reads", session.key)
        deaf = await clients.follow("does not read", session.key, buffer=4096)
        deaf.pause()
        story.history.watched[-1].slow = story.history.watched[-1].flooded = True
        await story.send(session, f"{session.key}-1", PROMPT)
        (claimed,) = await story.claim()
        for number in range(FLOOD // 50):
            pieces = [delta("m1", PIECE, (number * 50 + i) * len(PIECE), "thinking") for i in range(50)]
            await db.write(queue.append_events, [(claimed, pieces)], alone=True)
            await clients.heard(2 + len(pieces) * (number + 1), of=reads)
        await story.finish(claimed, "m1")
        deaf.resume()
        await clients.heard(FLOOD + 5)
