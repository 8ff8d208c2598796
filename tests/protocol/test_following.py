"""Many clients of one session, and one that was offline: all see the same events, once and in order."""

import asyncio
import threading
import time

import pytest

from clawsite.gateway.methods.sessions import subscriptions
from clawsite.infra import db
from clawsite.routing.inbound import find_session_or_none
from sessions_app.events import announce
from sessions_app.models import Event, Session, SessionMember
from tests.harness.gateway import serve_gateway
from tests.harness.protocol import SocketClients

pytestmark = pytest.mark.dialect

KEY = "agent:main:main"


def numbers(socket, event="agent"):
    return [payload["cursor"] for payload in socket.events(event)]


async def send(socket, run_id, message="hi", **params):
    return await socket.call("chat.send", {"sessionKey": KEY, "message": message, "idempotencyKey": run_id, **params})


async def test_all_session_clients_see_the_same_sequence(sockets, worker):
    watchers = [await sockets.connect(caps=["tool-events"]) for _ in range(5)]
    await send(watchers[0], "k1")
    await worker.start("k1")
    for word in ("one", " two", " three"):
        await worker.stream("k1", word)
    await worker.use_tool("k1", "read")
    await worker.finish("k1")
    for watcher in watchers:
        await watcher.event("chat", state="final")
    assert all(watcher.events("agent") == watchers[0].events("agent") for watcher in watchers)
    assert numbers(watchers[0]) == list(range(1, 10))


async def test_reconnected_client_gets_missed_events_then_live_ones(sockets, worker):
    owner = await sockets.connect()
    await send(owner, "k1")
    await worker.start("k1")
    await worker.stream("k1", *(f"{n} " for n in range(300)))
    late = await sockets.connect(caps=["session-scoped-events"])
    answer = await late.call("sessions.messages.subscribe", {"key": KEY, "fromStateVersion": 10})
    assert (answer["subscribed"], answer["cursor"]) == (True, 10)
    for n in range(20):
        await worker.stream("k1", f"more {n} ")
    await worker.finish("k1")
    await late.event("chat", state="final")
    assert numbers(late) == list(range(11, 325))
    text = "".join(payload["data"].get("delta", "") for payload in late.events("agent"))
    assert text == worker.texts["k1"][len("".join(f"{n} " for n in range(8))) :]


async def test_long_log_is_paged_completely(sockets, worker):
    socket = await sockets.connect()
    await send(socket, "k1")
    await worker.start("k1")
    for n in range(40):
        await worker.stream("k1", *(f"{n}.{m} " + "ö" * 1000 for m in range(20)))
    cursor, found, pages, more = 0, [], 0, True
    while more:
        page = await socket.call("sessions.history", {"sessionKey": KEY, "fromStateVersion": cursor})
        found += [event["payload"]["cursor"] for event in page["events"]]
        cursor, more, pages = page["cursor"], page["more"], pages + 1
    assert found == list(range(1, 803))
    assert pages > 1


async def test_event_too_large_for_the_bus_still_arrives(sockets, worker):
    socket = await sockets.connect()
    await socket.call("sessions.create", {"key": KEY})
    await socket.call("chat.inject", {"sessionKey": KEY, "message": "x" * 200_000})
    event = await socket.event("session", change="injected")
    assert len(event["message"]["content"][0]["text"]) == 200_000


async def test_pruned_events_require_resync(sockets, worker):
    socket = await sockets.connect()
    await send(socket, "k1")
    await worker.complete("k1", "old")
    await socket.event("chat", state="final")
    await db.write(Event.objects.filter(cursor__lte=3).delete)
    for place in (1, "2020-01-01T00:00:00Z"):
        answer = await socket.call("sessions.history", {"sessionKey": KEY, "fromStateVersion": place})
        assert (answer["resync_required"], "events" in answer) == (True, False)
    for place in ({"fromStateVersion": 3}, {}):  # a client without a cursor gets everything that is stored
        kept = await socket.call("sessions.history", {"sessionKey": KEY, **place})
        assert [event["payload"]["cursor"] for event in kept["events"]] == [4, 5]


async def test_other_users_cannot_follow_or_find_a_session(sockets, worker, make_user, make_token):
    owner, stranger = await sockets.connect(make_token(make_user())), await sockets.connect(make_token(make_user()))
    auditor = await sockets.connect(make_token(make_user("Auditor")))
    await send(owner, "k1")
    await worker.complete("k1", "private")
    await owner.event("chat", state="final")
    session_id = (await owner.call("sessions.list"))["sessions"][0]["id"]
    for method, params in (
        ("chat.history", {"sessionId": session_id}),
        ("sessions.history", {"sessionId": session_id}),
        ("sessions.messages.subscribe", {"sessionId": session_id}),
        ("sessions.resolve", {"sessionId": session_id}),
        ("sessions.patch", {"sessionId": session_id, "label": "mine"}),
        ("sessions.reset", {"sessionId": session_id}),
        ("sessions.delete", {"sessionId": session_id}),
        ("chat.send", {"sessionId": session_id, "message": "hi", "idempotencyKey": "k9"}),
        ("chat.abort", {"sessionId": session_id}),
        ("chat.inject", {"sessionId": session_id, "message": "hi"}),
        ("agent.wait", {"runId": "k1"}),
    ):
        answer = await stranger.request(method, params)
        assert answer.get("error", {}).get("code") == "NOT_FOUND", (method, answer)
    # The same key is another session of another user.
    assert (await stranger.call("chat.history", {"sessionKey": KEY}))["messages"] == []
    assert (await stranger.call("sessions.list"))["count"] == 0
    assert stranger.events("agent") == stranger.events("chat") == stranger.events("sessions.changed") == []
    assert auditor.events("agent") == []


async def test_member_gets_events_and_writes_only_as_writer(sockets, worker, make_user, make_token):
    owner_user, guest_user = make_user(), make_user()
    owner, guest = await sockets.connect(make_token(owner_user)), await sockets.connect(make_token(guest_user))
    await send(owner, "k1")
    session = Session.objects.get(owner=owner_user)

    def add_member():
        announce.notify_session_changed(session, "members")
        return SessionMember.objects.create(session=session, user=guest_user)

    member = await db.write(add_member)
    await guest.event("sessions.changed", reason="members")
    history = await guest.call("chat.history", {"sessionId": str(session.id)})
    assert history["queued"][0]["runId"] == "k1"
    refused = await guest.request("chat.send", {"sessionId": str(session.id), "message": "hi", "idempotencyKey": "g1"})
    assert refused["error"]["code"] == "FORBIDDEN"
    await worker.complete("k1", "for both")
    await guest.event("chat", state="final")
    await db.write(lambda: SessionMember.objects.filter(pk=member.pk).update(role=SessionMember.Role.WRITER))
    assert (await guest.call("chat.send", {"sessionId": str(session.id), "message": "hi", "idempotencyKey": "g2"}))[
        "status"
    ] == "started"


async def test_auditor_gets_events_of_followed_sessions(sockets, worker, make_user, make_token):
    owner, auditor = await sockets.connect(make_token(make_user())), await sockets.connect(make_token(make_user("Auditor")))
    await send(owner, "k1")
    session = (await auditor.call("sessions.list"))["sessions"][0]
    await auditor.call("sessions.messages.subscribe", {"sessionId": session["id"], "fromStateVersion": 0})
    await worker.complete("k1", "watched")
    await auditor.event("chat", state="final")
    assert numbers(auditor) == [1, 2, 3, 4, 5]
    await auditor.call("sessions.messages.unsubscribe", {"sessionId": session["id"]})
    await send(owner, "k2")
    await owner.event("agent", runId="k2")
    assert all(payload["runId"] == "k1" for payload in auditor.events("agent"))


async def test_scoped_client_can_subscribe_before_session_exists(sockets, worker):
    scoped, other = await sockets.connect(caps=["session-scoped-events"]), await sockets.connect()
    await scoped.call("sessions.messages.subscribe", {"key": "agent:main:wanted"})
    for name in ("unwanted", "wanted"):
        await other.call("chat.send", {"sessionKey": f"agent:main:{name}", "message": "x", "idempotencyKey": name})
    await scoped.event("agent", runId="wanted")
    assert {payload["runId"] for payload in scoped.events("agent")} == {"wanted"}


async def test_lost_bus_messages_delay_but_lose_no_event(sockets, worker, monkeypatch):
    socket = await sockets.connect()
    await send(socket, "k1")
    await socket.event("agent", cursor=1)
    monkeypatch.setattr("sessions_app.events.announce.bus.publish", lambda message: None)
    waiting = asyncio.create_task(socket.call("agent.wait", {"runId": "k1"}))
    await worker.complete("k1", "nobody", " was", " told")
    await socket.event("chat", state="final")
    assert numbers(socket) == [1, 2, 3, 4, 5, 6, 7]
    assert (await waiting)["status"] == "ok"


async def test_client_continues_from_its_cursor_after_restart(database, worker):
    async with serve_gateway() as address:
        sockets = SocketClients(address)
        client = await sockets.connect()
        await send(client, "k1")
        await worker.start("k1")
        await worker.stream("k1", "before", " the")
        await client.event("agent", cursor=4)
        seen = client.events("agent")
    assert (await client.closed())[0] == 1012
    await worker.stream("k1", " restart")  # while no server is running
    async with serve_gateway() as address:
        sockets = SocketClients(address)
        client = await sockets.connect(caps=["session-scoped-events"])
        await client.call("sessions.messages.subscribe", {"key": KEY, "fromStateVersion": seen[-1]["cursor"]})
        waiting = asyncio.create_task(client.call("agent.wait", {"runId": "k1"}))
        await worker.stream("k1", " and after")
        await worker.finish("k1")
        final = await client.event("chat", state="final")
        seen += client.events("agent")
        assert (await waiting)["status"] == "ok"
        again = await client.call("agent", {"sessionKey": KEY, "message": "hi", "idempotencyKey": "k1"})
        await sockets.close()
    assert [event["cursor"] for event in seen] == list(range(1, 9))
    assert [event["seq"] for event in seen] == list(range(1, 9))
    text = "".join(event["data"].get("delta", "") for event in seen)
    assert (
        text == final["message"]["content"][0]["text"] == again["result"]["payloads"][0]["text"] == "before the restart and after"
    )


@pytest.mark.parametrize("heard_first", ["by the hub", "by the method"])
async def test_session_created_during_subscribe_is_sent_from_first_event(sockets, worker, monkeypatch, heard_first):
    owner = await sockets.connect()
    late = await sockets.connect(caps=["session-scoped-events"])
    looks, seen_twice = [], threading.Event()

    def find(user, address):
        """The first read is just before the session is created, the second after it, before or after the hub learned of it."""
        looks.append(address)
        if len(looks) == 1:
            return None
        seen_twice.set()
        if heard_first == "by the hub":
            time.sleep(0.3)
        return find_session_or_none(user, address)

    await send(owner, "k1")
    monkeypatch.setattr(subscriptions, "find_session_or_none", find)
    asking = asyncio.create_task(late.call("sessions.messages.subscribe", {"key": KEY, "fromStateVersion": 0}))
    await asyncio.to_thread(seen_twice.wait)
    await worker.start("k1")
    await worker.stream("k1", "word ")
    answer = await asking
    assert (answer["subscribed"], answer["cursor"]) == (True, 0)
    await worker.finish("k1")
    await late.event("agent", cursor=5)
    assert numbers(late) == list(range(1, 6))
    first = next(at for at, frame in enumerate(late.seen) if frame.get("event") == "agent")
    assert any(frame["type"] == "res" and (frame.get("payload") or {}).get("subscribed") for frame in late.seen[:first])
