"""Deliver committed events from the bus to the sockets that may see them. There is one hub per process.

Each session is a stream with a head, the last cursor delivered. The bus may lose, duplicate or reorder messages: if an event is
not the next cursor, the missing ones are read from the rows, so every socket gets every event once and in order. If there are
no gaps, nothing here waits.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable
from typing import Literal, cast

from clawsite.gateway.delivery.audience import Audience
from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.delivery.hub_queries import HubQueries, replay_events
from clawsite.gateway.delivery.message_feed import MessageFeed
from clawsite.gateway.delivery.session_stream import EventPayload, SessionStream
from clawsite.gateway.protocol.events import frames
from clawsite.gateway.protocol.events.chat import ChatEventBuilder
from clawsite.gateway.protocol.events.frames import OutgoingEvent, SessionName
from clawsite.infra import clock
from clawsite.infra.errors import ClawError
from sessions_app.events.announce import EventsCommitted, SessionChanged
from sessions_app.keys import make_shared_key
from sessions_app.sessions.run_waits import RunWaiters

log = logging.getLogger(__name__)

WATCHED_SECONDS = 60.0  # a session without a run is polled this long after its last event
PROMISE_SECONDS = 30.0  # how long to wait for a response to be sent
FORGET_SECONDS = 600.0  # an idle session's head is kept this long


class Hub:
    def __init__(
        self,
        rows: HubQueries,
        *,
        now: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], object] | None = None,
    ) -> None:
        self.audience = Audience(rows)
        self.run_waits = RunWaiters()
        self._messages = MessageFeed(rows, self.audience)
        self._rows = rows
        self._now = now
        self._later = later or (lambda delay, call: asyncio.get_running_loop().call_later(delay, call))
        self._streams: dict[str, SessionStream] = {}
        self._repairing: set[asyncio.Task[None]] = set()

    def leave(self, connection: Connection) -> None:
        self.audience.remove(connection)
        if not self.audience:
            self.forget()  # no clients left; the next one starts from the rows

    def forget(self) -> None:
        for stream in list(self._streams.values()):
            self._drop(stream)

    def head_of(self, session_id: str) -> int | None:
        stream = self._streams.get(session_id)
        return stream.head if stream and stream.opened else None

    # Receiving

    def receive_events(self, message: EventsCommitted) -> None:
        events = cast(list[EventPayload], message.events)
        self.run_waits.handle_events(events)
        if not self.audience:
            return
        stream = self._stream(message.session)
        stream.touched = self._now()
        stream.waiting += events
        if len(stream.waiting) > len(events):
            stream.waiting.sort(key=lambda event: int(event["cursor"]))
        if not stream.busy:
            self._advance(stream)

    def receive_session_change(self, message: SessionChanged) -> None:
        """Handle a session that was created, patched, reset or deleted, or that a user marked (such as pinned) for themselves."""
        session, only = (message.session, message.owner, message.key), message.only
        self._send_change(
            message,
            self.audience.connections_of_session(*session)
            if only is None
            else self.audience.user_connections_for_session(only, *session),
        )

    async def receive_member_change(self, message: SessionChanged) -> None:
        """Handle changed members of a session: notify those who could see it before and those who can now."""
        before = self.audience.connections_of_session(message.session, message.owner, message.key)
        await self.audience.load_members()
        after = self.audience.connections_of_session(message.session, message.owner, message.key)
        self._send_change(message, {*before, *after})

    def _send_change(self, message: SessionChanged, connections: Iterable[Connection]) -> None:
        payload = {
            "sessionKey": message.key,
            "sessionId": message.sessionId,
            "reason": message.change,
            "ts": clock.now_ms(),
        }
        outgoing = OutgoingEvent("sessions.changed", payload, payload)
        for_others = outgoing.about(make_shared_key(message.session))
        for connection in connections:
            connection.deliver(outgoing if connection.user_pk == message.owner else for_others)

    def _stream(self, session_id: str) -> SessionStream:
        stream = self._streams.get(session_id)
        if stream is None:
            stream = self._streams[session_id] = SessionStream(session_id, self._now())
        return stream

    def _drop(self, stream: SessionStream) -> None:
        stream.close()
        if self._streams.get(stream.id) is stream:
            del self._streams[stream.id]

    def _advance(self, stream: SessionStream) -> None:
        """Deliver events that are next in order; if one is missing, read the rows."""
        while stream.waiting:
            event = stream.waiting[0]
            if event["cursor"] > stream.head and stream.needs_rows(event):
                self._repair(stream)
                return
            stream.waiting.pop(0)
            if event["cursor"] > stream.head:
                self._deliver(stream, event)

    # Sending

    def _deliver(self, stream: SessionStream, event: EventPayload) -> None:
        self._send_event(stream, event)
        self._messages.handle_event(stream, event)

    def _send_event(self, stream: SessionStream, event: EventPayload) -> None:
        now = stream.touched = self._now()
        stream.head = event["cursor"]
        if event["run"] is None:
            self._send_to_recipients(
                stream, [*frames.to_outgoing(event, stream.name), *frames.to_injected_outgoing(event, stream.name)]
            )
            if renamed := event["data"].get("sessionId"):  # a reset: the same session, a new generation
                stream.name = SessionName(renamed, stream.name.key)
            return
        view = stream.views.setdefault(event["run"], ChatEventBuilder(event["runId"]))
        chats = [frames.to_chat_outgoing(payload, stream.name) for payload in view.feed(event, now)]
        if view.ended:
            # Throttled deltas go before the end event, the final chat event after it.
            self._send_to_recipients(stream, [*chats[:-1], *frames.to_outgoing(event, stream.name), *chats[-1:]])
            del stream.views[event["run"]]
            return
        self._send_to_recipients(stream, [*frames.to_outgoing(event, stream.name), *chats])
        if view.due is not None:
            self._flush_later(stream, view)

    def _flush_later(self, stream: SessionStream, view: ChatEventBuilder) -> None:
        if view.timed or view.due is None:
            return
        view.timed = True

        def flush() -> None:
            view.timed = False
            if view.ended or view.due is None:
                return
            if (now := self._now()) < view.due:  # an event has sent the text since, and more is pending
                self._flush_later(stream, view)
                return
            self._send_to_recipients(stream, [frames.to_chat_outgoing(payload, stream.name) for payload in view.flush(now)])

        self._later(max(0.0, view.due - self._now()), flush)

    def _send_to_recipients(self, stream: SessionStream, events: Iterable[OutgoingEvent]) -> None:
        if stream.closed:  # the stream's successor serves the current clients
            return
        if stream.version != self.audience.version:
            stream.version = self.audience.version
            connections = self.audience.connections_of_session(stream.id, stream.owner, stream.name.key)
            stream.recipients = [connection for connection in connections if connection.user_pk == stream.owner]
            stream.guests = [connection for connection in connections if connection.user_pk != stream.owner]
        for outgoing in events:
            self._send_to(stream, outgoing, stream.recipients)
            if stream.guests:
                self._send_to(stream, outgoing.about(make_shared_key(stream.id)), stream.guests)

    def _send_to(self, stream: SessionStream, outgoing: OutgoingEvent, connections: Iterable[Connection]) -> None:
        for connection in connections:
            subscriptions = connection.subscriptions
            if subscriptions.may_skip:
                own_key = stream.name.key if connection.user_pk == stream.owner else None
                if subscriptions.skips(stream.id, own_key, stream.head):
                    continue
            connection.deliver(outgoing)

    def broadcast(self, outgoing: OutgoingEvent, *, to: Literal["readers", "operators", "everybody"] = "readers") -> None:
        for connection in self.audience:
            if connection.authority.may_read or to == "everybody" or (to == "operators" and connection.role == "operator"):
                connection.deliver(outgoing)

    def send_to_owner(self, user_pk: int, outgoing: OutgoingEvent) -> None:
        """Send to all of a user's connections that may read."""
        for connection in self.audience.connections_of_user(user_pk):
            if connection.authority.may_read:
                connection.deliver(outgoing)

    # Repairing

    def _repair(self, stream: SessionStream) -> None:
        stream.busy = True
        task = asyncio.get_running_loop().create_task(self._read_rows(stream))
        self._repairing.add(task)
        task.add_done_callback(self._repairing.discard)

    async def _read_rows(self, stream: SessionStream) -> None:
        """Deliver from the rows up to their head, then continue with what has arrived on the bus since."""
        try:
            if not stream.opened and not await self._open(stream):
                return
            more, heard = True, 0
            while more and not stream.closed:
                heard = max((event["cursor"] for event in stream.waiting), default=0)
                events, more = await self._rows.events_after(stream.id, stream.head)
                for event in events:
                    await self._deliver_known(stream, event)
            await self._deliver_rest(stream, heard)
        except ClawError as error:
            log.warning("could not read the events of a session: %s", error.message, extra={"session": stream.id})
            return
        except Exception:
            log.exception("could not read the events of a session", extra={"session": stream.id, "cursor": stream.head})
            return
        finally:
            stream.busy = False
        self._advance(stream)

    async def _open(self, stream: SessionStream) -> bool:
        """Start a stream after the events that were written before the first client connected."""
        facts = await self._rows.session(stream.id)
        if facts is None:  # purged
            self._drop(stream)
            return False
        # A stream is only forgotten after being idle for longer, so no event is sent twice; the minute allows for clock skew.
        window = clock.now_ms() - int((FORGET_SECONDS - 60) * 1000)
        stream.head = await self._rows.cursor_before(stream.id, max(self.audience.since_ms, window))
        stream.name, stream.owner, stream.opened = facts.name, facts.owner, True
        for connection, promised in self.audience.take_waiting_followers(stream.id, facts.owner, facts.name.key):
            # An event's time is taken before its commit, so the first ones may look older than the connection that waits for them.
            connection.subscriptions.start_replay(stream.id)
            task = asyncio.get_running_loop().create_task(self._replay_all(connection, promised, stream.id, facts.name))
            self._repairing.add(task)
            task.add_done_callback(self._repairing.discard)
        return True

    async def _replay_all(self, connection: Connection, promised: asyncio.Event, session_id: str, name: SessionName) -> None:
        """Send a connection all events of a session. It skips live events until it has caught up."""
        with contextlib.suppress(TimeoutError):  # the connection was lost before the response was sent
            async with asyncio.timeout(PROMISE_SECONDS):
                await promised.wait()
        await replay_events(self._rows, self, connection, session_id, name, 0)

    async def _deliver_known(self, stream: SessionStream, event: EventPayload) -> None:
        run = event["run"]
        if run is not None and event["seq"] > 1 and run not in stream.views:
            view = ChatEventBuilder(event["runId"])
            for earlier in await self._rows.run_events(run, event["seq"]):
                view.catch_up(earlier)
            stream.views[run] = view
        self._deliver(stream, event)

    async def _deliver_rest(self, stream: SessionStream, heard: int) -> None:
        """Deliver events that arrived before the rows were read but are not in them. The gap in the rows is real, so skip it.

        For events that arrived later, the rows are read again, because they may be complete by now.
        """
        while stream.waiting and stream.waiting[0]["cursor"] <= heard and stream.needs_rows(stream.waiting[0]):
            event = stream.waiting.pop(0)
            if event["cursor"] > stream.head and event["data"] is not None:
                await self._deliver_known(stream, event)

    # Polling

    async def poll(self) -> None:
        """Find what was lost on the bus: new members, awaited runs that ended, and events of watched sessions."""
        if self.run_waits:
            for run_pk in await self._rows.ended(self.run_waits.runs):
                self.run_waits.notify(run_pk)
        if not self.audience:
            return
        await self.audience.load_members()
        self._forget_idle()
        heads = await self._rows.heads(
            [stream.id for stream in self._streams.values() if self._is_watched(stream)], self.audience.users
        )
        if not self.audience:  # the last client disconnected during the read
            return
        for session_id, head in heads.items():
            stream = self._stream(session_id)
            if not stream.busy and (not stream.opened or head > stream.head or stream.waiting):
                self._repair(stream)

    def _is_watched(self, stream: SessionStream) -> bool:
        recent = self._now() - stream.touched < WATCHED_SECONDS
        return recent or bool(stream.views) or self.audience.is_followed(stream.id)

    def _forget_idle(self) -> None:
        now = self._now()
        for stream in list(self._streams.values()):
            if not stream.busy and not stream.views and now - stream.touched > FORGET_SECONDS:
                self._drop(stream)

    async def settle(self) -> None:
        """Wait until all reads are done."""
        while unread := self._repairing | self._messages.tasks:
            await asyncio.wait(unread)
