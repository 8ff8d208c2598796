"""`session.message` and the delta cursor: every message once and in order, live or on request, for users who can see it."""

import asyncio

import pytest

from clawsite.gateway.delivery.message_feed import MessageFeed
from clawsite.gateway.delivery.subscriptions import Subscriptions
from clawsite.infra import bus, db
from clawsite.infra.errors import Unavailable
from sessions_app.events.announce import EventsCommitted
from sessions_app.models import Session, SessionMember, TranscriptEntry
from sessions_app.transcript import history as transcript_history
from sessions_app.transcript import new_messages

pytestmark = pytest.mark.dialect

KEY = "agent:main:main"


async def send(socket, run_id, message="hi"):
    return await socket.call("chat.send", {"sessionKey": KEY, "message": message, "idempotencyKey": run_id})


def heard(socket):
    return [payload["messageId"] for payload in socket.events("session.message")]


async def said_by_now(socket, **where):
    page = await socket.call("chat.history", where or {"sessionKey": KEY})
    return [message["messageId"] for message in page["messages"]], page["deltaCursor"]


async def until_heard(socket, count):
    def enough(_):
        return len(socket.events("session.message")) >= count

    await socket.find(enough)


async def a_client_comes_and_goes(sockets, worker):
    """Return all messages it received, live and by deltas, and the stored ones."""
    owner = await sockets.connect()
    watcher = await sockets.connect()
    await watcher.call("sessions.subscribe", {})
    await send(owner, "k1")
    await worker.start("k1")
    await until_heard(watcher, 1)  # so that the run is read more than once
    await worker.stream("k1", "one")
    await worker.finish("k1")
    await until_heard(watcher, 2)
    told = heard(watcher)
    _, cursor = await said_by_now(watcher)
    await watcher.close()
    for run_id in ("k2", "k3"):
        await send(owner, run_id)
        await worker.complete(run_id, run_id)
    await send(owner, "k4")
    await worker.start("k4")
    watcher = await sockets.connect()
    await watcher.call("sessions.messages.subscribe", {"key": KEY})
    delta = await watcher.call("chat.history", {"sessionKey": KEY, "cursor": cursor})
    told += [payload["messageId"] for payload in delta["messages"]]
    await worker.stream("k4", "four")
    await worker.finish("k4")
    await until_heard(watcher, 1)
    await owner.event("chat", state="final", runId="k4")
    told += heard(watcher)
    last = await watcher.call("chat.history", {"sessionKey": KEY, "cursor": delta["deltaCursor"]})
    assert [payload["messageId"] for payload in last["messages"]] == heard(watcher)
    return told, (await said_by_now(owner))[0]


async def test_messages_arrive_once_in_order_live_and_by_delta(sockets, worker):
    told, there_is = await a_client_comes_and_goes(sockets, worker)
    assert told == there_is
    assert len(told) == 8


def tells_what_was_said_before(monkeypatch):
    monkeypatch.setattr(Subscriptions, "is_new_message", lambda *_: True)


def begins_a_delta_too_early(monkeypatch):
    history = transcript_history.read_history
    monkeypatch.setattr(
        transcript_history, "read_history", lambda session, *, after, **more: history(session, after=after - 1, **more)
    )


def reads_a_run_from_its_beginning(monkeypatch):
    found = new_messages.read_new_messages
    monkeypatch.setattr(
        "clawsite.gateway.delivery.hub_queries.read_new_messages",
        lambda session, runs, ids: found(session, dict.fromkeys(runs, 0), ids),
    )


@pytest.mark.parametrize("mutate", [tells_what_was_said_before, begins_a_delta_too_early, reads_a_run_from_its_beginning])
async def test_delivery_faults_are_detected(mutate, sockets, worker, monkeypatch):
    mutate(monkeypatch)
    try:
        told, there_is = await a_client_comes_and_goes(sockets, worker)
    except AssertionError:
        return
    assert told != there_is


async def a_stranger_asks_for_every_message(sockets, worker, make_user, make_token):
    owner, stranger = await sockets.connect(make_token(make_user())), await sockets.connect(make_token(make_user(name="stranger")))
    await stranger.call("sessions.subscribe", {})
    await owner.call("sessions.subscribe", {})
    await send(owner, "k1")
    await worker.complete("k1", "private")
    await until_heard(owner, 2)
    return stranger


async def test_foreign_messages_are_not_delivered(sockets, worker, make_user, make_token):
    assert heard(await a_stranger_asks_for_every_message(sockets, worker, make_user, make_token)) == []


async def test_missing_visibility_check_is_detected(sockets, worker, make_user, make_token, monkeypatch):
    monkeypatch.setattr(MessageFeed, "_listeners", lambda self, stream: list(self._audience))
    stranger = await a_stranger_asks_for_every_message(sockets, worker, make_user, make_token)
    await until_heard(stranger, 1)


async def test_guest_gets_messages_under_shared_key_until_removed(sockets, worker, make_user, make_token):
    owner, guest_user = await sockets.connect(make_token(make_user(name="owner"))), make_user(name="guest")
    await send(owner, "k1")
    session = await db.read(Session.objects.get, key=KEY)
    await db.write(lambda: SessionMember.objects.create(session=session, user=guest_user, role=SessionMember.Role.VIEWER))
    guest = await sockets.connect(make_token(guest_user))
    await guest.call("sessions.messages.subscribe", {"sessionId": str(session.id)})
    await worker.complete("k1", "for both")
    await until_heard(guest, 2)
    assert {payload["sessionKey"] for payload in guest.events("session.message")} == {f"session:{session.id}"}
    await owner.call("sessions.share", {"key": KEY, "username": "guest", "role": None})
    await guest.event("sessions.changed", reason="members")
    await owner.call("sessions.subscribe", {})
    await send(owner, "k2")
    await worker.complete("k2", "for one")
    await until_heard(owner, 2)
    assert len(heard(guest)) == 2


async def test_unsubscribed_client_gets_no_messages_and_causes_no_reads(sockets, worker, monkeypatch):
    def not_asked(*_):
        raise AssertionError("nobody asked for messages")

    monkeypatch.setattr("clawsite.gateway.delivery.hub_queries.read_new_messages", not_asked)
    socket, classic = await sockets.connect(), await sockets.connect(protocol=1)
    await classic.call("sessions.messages.subscribe", {"key": KEY, "fromStateVersion": 0})
    await send(socket, "k1")
    await worker.complete("k1", "yes")
    for one in (socket, classic):
        await one.event("chat", state="final")
        assert one.events("session.message") == []


async def test_messages_arrive_despite_lost_bus_events(sockets, worker, monkeypatch, settings):
    settings.POLL_SECONDS = 0.05
    socket = await sockets.connect()
    await socket.call("sessions.subscribe", {})
    await send(socket, "k1")
    await socket.event("agent", runId="k1")
    publish = bus.publish
    monkeypatch.setattr(bus, "publish", lambda message: None if isinstance(message, EventsCommitted) else publish(message))
    await worker.complete("k1", "found")
    await until_heard(socket, 2)
    assert heard(socket) == (await said_by_now(socket))[0]


async def test_client_is_disconnected_when_messages_cannot_be_read(sockets, worker, monkeypatch):
    def away(*_):
        raise Unavailable("the database is away")

    socket = await sockets.connect()
    await socket.call("sessions.subscribe", {})
    await send(socket, "k1")
    monkeypatch.setattr("clawsite.gateway.delivery.hub_queries.read_new_messages", away)
    await worker.start("k1")
    assert await socket.closed() == (1013, "could not read new messages")


@pytest.mark.parametrize("behind", [transcript_history.MAX_MESSAGES, transcript_history.MAX_MESSAGES + 1])
async def test_client_too_far_behind_gets_a_reset(behind, sockets, worker):
    socket = await sockets.connect()
    await send(socket, "k1")
    await worker.complete("k1", "begin")
    _, cursor = await said_by_now(socket)
    for n in range(behind):
        await socket.call("chat.inject", {"sessionKey": KEY, "message": f"note {n}"})
    answer = await socket.call("chat.history", {"sessionKey": KEY, "cursor": cursor})
    if behind > transcript_history.MAX_MESSAGES:
        assert answer["kind"] == "reset"
    else:
        texts = [payload["message"]["content"][0]["text"] for payload in answer["messages"]]
        assert texts == [f"note {n}" for n in range(behind)]


async def test_cursor_from_before_restore_gets_a_reset(sockets, worker):
    socket = await sockets.connect()
    await send(socket, "k1")
    await worker.complete("k1", "begin")
    _, cursor = await said_by_now(socket)
    await worker.restore_database()
    assert (await socket.call("chat.history", {"sessionKey": KEY, "cursor": cursor}))["kind"] == "reset"


async def test_rewind_during_history_read_returns_a_reset(sockets, worker, monkeypatch):
    socket = await sockets.connect()
    await send(socket, "k1")
    await worker.complete("k1", "begin")
    _, cursor = await said_by_now(socket)
    history = transcript_history.read_history

    def then_somebody_goes_back(session, **more):
        page = history(session, **more)
        last = TranscriptEntry.objects.filter(session=session).latest("position")
        last.pk, last.run, last.step, last.kind, last.position, last.keep_through = None, None, None, "rewind", last.position + 1, 0
        last.save(force_insert=True)
        return page

    monkeypatch.setattr(transcript_history, "read_history", then_somebody_goes_back)
    assert (await socket.call("chat.history", {"sessionKey": KEY, "cursor": cursor}))["kind"] == "reset"


async def test_patch_without_changes_sends_no_event(sockets):
    """OpenClaw's page marks a session as read on every change; a change notification for that would make it repeat this forever."""
    socket, other = await sockets.connect(), await sockets.connect()
    await socket.call("sessions.create", {"key": "agent:main:quiet"})
    await other.event("sessions.changed", reason="created")
    for _ in range(3):
        await socket.call("sessions.patch", {"key": "agent:main:quiet", "unread": False, "expectedMarkedUnreadAt": None})
        await socket.call("sessions.patch", {"key": "agent:main:quiet"})
    await socket.call("sessions.patch", {"key": "agent:main:quiet", "label": "told"})
    await asyncio.wait_for(other.event("sessions.changed", reason="patched"), 5)
    told = [payload for payload in other.events("sessions.changed") if payload["reason"] == "patched"]
    assert len(told) <= 2  # the first read, and the label
