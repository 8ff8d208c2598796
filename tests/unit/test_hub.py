"""The hub: every socket that may see a session gets each of its events once and in order, whatever the bus does."""

import asyncio
import random

import pytest

from clawsite.gateway.delivery.hub import FORGET_SECONDS, Hub
from sessions_app.events.announce import SessionChanged
from tests.unit.gateway_fakes import MEMBER, OWNER, SESSION, STRANGER, Clock, FakeRows, Log, connection, frames, payloads


class World:
    """A hub with one session and one client that watches it."""

    def __init__(self) -> None:
        self.log = Log()
        self.rows = FakeRows(self.log)
        self.clock = Clock()
        self.hub = Hub(self.rows, now=self.clock, later=self.clock.later)

    async def watcher(self, *args, **kwargs):
        made = connection(*args, **kwargs)
        self.hub.audience.add(made)
        await self.hub.audience.load_members()
        return made

    async def tell(self, *events) -> None:
        self.hub.receive_events(self.log.message(*events))
        await self.hub.settle()

    def hold_back(self, question: str) -> asyncio.Event:
        """From now on, this query returns the rows as of the call, but only once the event is set."""
        read, let_go = getattr(self.rows, question), asyncio.Event()

        async def slowly(*args):
            found = await read(*args)
            await let_go.wait()
            return found

        setattr(self.rows, question, slowly)
        return let_go


@pytest.fixture
def world() -> World:
    return World()


def cursors(watcher) -> list[int]:
    return [payload["cursor"] for payload in payloads(watcher, "agent")]


async def test_run_events_are_delivered_in_order_with_seq(world):
    watcher = await world.watcher()
    for event in world.log.run("hello world"):
        await world.tell(event)
    told = payloads(watcher, "agent")
    assert [payload["seq"] for payload in told] == [1, 2, 3, 4, 5, 6]
    assert told[0] == {
        "runId": "run-7",
        "seq": 1,
        "stream": "lifecycle",
        "ts": 10**15,
        "sessionKey": "agent:main:main",
        "sessionId": "generation-1",
        "cursor": 1,
        "data": {"phase": "accepted", "prompt": "hi"},
    }
    assert [frame["seq"] for frame in frames(watcher)] == list(range(1, len(frames(watcher)) + 1))


async def test_events_without_gaps_need_no_further_database_reads(world):
    await world.watcher()
    events = world.log.run("a b c d e f")
    await world.tell(events[0])
    world.rows.asked.clear()
    for event in events[1:]:
        await world.tell(event)
    assert world.rows.asked == []


async def test_events_lost_by_the_bus_are_read_from_database(world):
    watcher = await world.watcher()
    events = world.log.run("a b c d e f")
    await world.tell(events[0])
    await world.tell(events[5])
    await world.tell(events[6])
    assert cursors(watcher) == [1, 2, 3, 4, 5, 6, 7]


async def test_duplicate_and_reordered_messages_are_delivered_once_in_order(world):
    watcher = await world.watcher()
    events = world.log.run(" ".join(str(number) for number in range(40)))
    told = events * 2
    random.Random(7).shuffle(told)
    for event in told:
        world.hub.receive_events(world.log.message(event))
    await world.hub.settle()
    assert cursors(watcher) == [event["cursor"] for event in events]


async def test_oversized_bus_event_is_read_from_database(world):
    watcher = await world.watcher()
    events = world.log.run("a b")
    await world.tell(*events[:3])
    world.hub.receive_events(world.log.message({**events[3], "data": None}))
    await world.hub.settle()
    assert payloads(watcher, "agent")[3]["data"]["delta"] == " b"


async def test_run_with_all_messages_lost_is_found_by_poll(world):
    watcher = await world.watcher()
    world.log.run("nobody told me")
    world.log.commit()
    await world.hub.poll()
    await world.hub.settle()
    assert len(cursors(watcher)) == 7
    assert payloads(watcher, "chat")[-1]["state"] == "final"


async def test_database_failure_delays_events_without_losing_them(world):
    watcher = await world.watcher()
    events = world.log.run("a b c")
    world.rows.broken = True
    await world.tell(events[0])
    await world.tell(events[1])
    assert cursors(watcher) == []
    world.rows.broken = False
    await world.hub.poll()
    await world.hub.settle()
    assert cursors(watcher) == [1, 2]
    await world.tell(events[4])
    assert cursors(watcher) == [1, 2, 3, 4, 5]


async def test_events_from_before_connecting_are_not_delivered(world):
    for event in world.log.run("old news"):
        event["ts"] = 1
    watcher = await world.watcher()
    [accepted, *_] = world.log.run("new", run=8)
    await world.tell(accepted)
    assert cursors(watcher)[0] == accepted["cursor"]


async def test_client_joining_mid_run_gets_the_text_so_far(world):
    events = world.log.run("one two three")
    for event in events[:4]:
        event["ts"] = 1  # before any client connected
    watcher = await world.watcher()
    await world.tell(events[4])
    first = payloads(watcher, "chat")[0]
    assert first["message"]["content"][0]["text"] == "one two three"


async def test_evicted_session_is_not_delivered_twice(world, monkeypatch):
    monkeypatch.setattr("clawsite.gateway.delivery.hub.clock.now_ms", lambda: int(world.clock.now * 1000))
    monkeypatch.setattr("clawsite.gateway.delivery.audience.clock.now_ms", lambda: int(world.clock.now * 1000))
    watcher = await world.watcher()
    first = world.log.run("first")
    for event in first:
        event["ts"] = int(world.clock.now * 1000)
    await world.tell(*first)
    world.clock.pass_(FORGET_SECONDS + 1)
    world.rows.logs.clear()
    await world.hub.poll()
    world.rows.logs[SESSION] = world.log
    assert world.hub.head_of(SESSION) is None
    second = world.log.run("second", run=8)
    for event in second:
        event["ts"] = int(world.clock.now * 1000)
    await world.tell(*second)
    assert cursors(watcher) == list(range(1, 11))


async def test_pending_database_reads_are_not_delivered_to_later_client(world, eventually):
    first = await world.watcher()
    answers = world.hold_back("events_after")
    events = world.log.run("read slowly")
    world.hub.receive_events(world.log.message(*events[:3]))
    await eventually(lambda: "events after 0" in world.rows.asked)
    world.hub.leave(first)
    second = await world.watcher()
    world.hub.receive_events(world.log.message(events[3]))
    answers.set()
    await world.hub.settle()
    assert frames(first) == []
    assert cursors(second) == [1, 2, 3, 4]


async def test_pending_deltas_are_not_delivered_to_later_client(world):
    first = await world.watcher()
    await world.tell(*world.log.run("a b c")[:-2])
    assert payloads(first, "chat")[-1]["deltaText"] == "a"  # the rest is throttled
    world.hub.leave(first)
    second = await world.watcher()
    world.clock.pass_(1)
    assert frames(second) == []


async def test_poll_outliving_its_audience_opens_no_session(world, eventually):
    first = await world.watcher()
    answers = world.hold_back("heads")
    world.log.run("before anybody else came")
    world.log.commit()
    polling = asyncio.create_task(world.hub.poll())
    await eventually(lambda: "heads" in world.rows.asked)
    world.hub.leave(first)
    answers.set()
    await polling
    await world.hub.settle()
    assert world.hub.head_of(SESSION) is None


async def test_chat_deltas_are_paced_and_flushed_before_the_final(world):
    watcher = await world.watcher()
    events = world.log.run("a b c d e f g h")
    for event in events[:-2]:
        await world.tell(event)
        world.clock.pass_(0.01)
    world.clock.pass_(0.2)
    await world.tell(*events[-2:])
    told = payloads(watcher, "chat")
    assert [payload["state"] for payload in told] == ["delta", "delta", "final"]
    assert "".join(payload.get("deltaText", "") for payload in told) == "a b c d e f g h"
    order = [(frame["event"], frame["payload"].get("state") or frame["payload"]["data"].get("phase")) for frame in frames(watcher)]
    assert order[-2:] == [("agent", "end"), ("chat", "final")]


async def test_timer_of_text_already_sent_does_not_send_later_text_early(world):
    watcher = await world.watcher()
    sent_after = {}
    for event, pause in zip(world.log.run("a b c d")[:6], (0, 0, 0.01, 0.07, 0.01, 0.02), strict=True):
        await world.tell(event)
        world.clock.pass_(pause)
    for moment in ("within the interval", "after it"):
        sent_after[moment] = "".join(payload["deltaText"] for payload in payloads(watcher, "chat"))
        world.clock.pass_(0.1)
    assert sent_after == {"within the interval": "a b c", "after it": "a b c d"}


async def test_pending_deltas_are_delivered_before_the_run_end(world):
    watcher = await world.watcher()
    for event in world.log.run("a b c"):
        await world.tell(event)
    order = [
        (frame["event"], frame["payload"].get("state") or frame["payload"]["data"].get("phase"))
        for frame in frames(watcher)
        if frame["event"] == "chat" or frame["payload"]["stream"] == "lifecycle"
    ]
    assert order[-3:] == [("chat", "delta"), ("agent", "end"), ("chat", "final")]


async def test_protocol_1_gets_events_in_its_own_format(world):
    classic, modern = await world.watcher(protocol=1), await world.watcher(protocol=4)
    with_tools = await world.watcher(protocol=4, caps=("tool-events",))
    events = [
        world.log.add("lifecycle", phase="accepted", prompt="hi"),
        world.log.add("assistant", messageId="m", attempt=1, delta="hm", offset=0),
        world.log.add("tool", phase="start", name="read", toolCallId="t1", args={"path": "x"}),
        world.log.add("tool", phase="result", name="read", toolCallId="t1", isError=True, result={"content": []}),
    ]
    await world.tell(*events)
    delta = frames(classic, "agent")[1]
    assert (delta["stateVersion"], delta["payload"]["delta"]) == (2, "hm")
    assert [(payload["status"], payload["toolCallId"]) for payload in payloads(classic, "tool")] == [
        ("start", "t1"),
        ("error", "t1"),
    ]
    assert all("stateVersion" not in frame for frame in frames(modern))
    assert "delta" not in payloads(modern, "agent")[1]
    assert [payload["stream"] for payload in payloads(modern, "agent")] == ["lifecycle", "assistant"]
    assert [payload["stream"] for payload in payloads(with_tools, "agent")] == ["lifecycle", "assistant", "tool", "tool"]
    assert frames(with_tools, "tool") == []


async def test_only_owner_and_members_get_events(world):
    world.rows.memberships = {SESSION: frozenset({MEMBER})}
    owner, member = await world.watcher(OWNER), await world.watcher(MEMBER)
    stranger, auditor = await world.watcher(STRANGER), await world.watcher(4, sees_all=True)
    await world.tell(*world.log.run("private"))
    assert len(cursors(owner)) == len(cursors(member)) == 5
    assert frames(stranger) == frames(auditor) == []


async def test_auditor_gets_events_of_followed_sessions(world):
    auditor, stranger = await world.watcher(4, sees_all=True), await world.watcher(STRANGER)
    world.hub.audience.follow(auditor, SESSION)
    world.hub.audience.follow(stranger, SESSION)
    await world.tell(*world.log.run("audited"))
    assert len(cursors(auditor)) == 5
    assert frames(stranger) == []


async def test_removed_member_gets_no_more_events(world):
    world.rows.memberships = {SESSION: frozenset({MEMBER})}
    member = await world.watcher(MEMBER)
    await world.tell(world.log.add("lifecycle", phase="accepted", prompt="hi"))
    world.rows.memberships = {}
    await world.hub.audience.load_members()
    await world.tell(world.log.add("lifecycle", phase="start", startedAt=1))
    assert cursors(member) == [1]


async def test_scoped_connection_gets_only_followed_sessions(world):
    scoped = await world.watcher(OWNER, caps=("session-scoped-events",))
    by_key = await world.watcher(OWNER, caps=("session-scoped-events",))
    world.hub.audience.follow_key(by_key, "agent:main:main")
    await world.tell(world.log.add("lifecycle", phase="accepted", prompt="hi"))
    world.hub.audience.follow(scoped, SESSION)
    await world.tell(world.log.add("lifecycle", phase="start", startedAt=1))
    assert cursors(scoped) == [2]
    assert cursors(by_key) == [1, 2]


async def test_client_awaiting_a_session_gets_its_first_event(world):
    waiting, other = await world.watcher(OWNER), await world.watcher(OWNER)
    promised = asyncio.Event()
    world.hub.audience.follow_key(waiting, "agent:main:main", promised=promised)
    world.log.add("lifecycle", phase="accepted", prompt="hi", ts=1)  # lost, and older than all clients
    world.hub.receive_events(world.log.message(world.log.add("lifecycle", phase="start", startedAt=1)))
    for _ in range(100):
        await asyncio.sleep(0)
    assert cursors(other) == [2]
    assert cursors(waiting) == [], "no event overtakes the promise"
    promised.set()
    await world.hub.settle()
    assert cursors(waiting) == [1, 2]
    assert cursors(other) == [2]
    await world.tell(world.log.add("lifecycle", phase="end", endedAt=2))
    assert cursors(waiting) == [1, 2, 3]


async def test_session_change_reaches_users_with_access(world):
    owner, stranger = await world.watcher(OWNER), await world.watcher(STRANGER)
    told = SessionChanged(SESSION, "generation-1", "agent:main:x", OWNER, "created")
    world.hub.receive_session_change(told)
    [payload] = payloads(owner, "sessions.changed")
    assert (payload["sessionKey"], payload["sessionId"], payload["reason"]) == ("agent:main:x", "generation-1", "created")
    assert frames(stranger) == []


async def test_injected_message_is_final_immediately(world):
    watcher = await world.watcher()
    message = {"role": "assistant", "content": [{"type": "text", "text": "note"}], "timestamp": 1, "messageId": "abcd"}
    await world.tell(world.log.add("session", run=None, change="injected", message=message))
    [final] = payloads(watcher, "chat")
    assert (final["runId"], final["seq"], final["state"], final["message"]) == ("inject-abcd", 0, "final", message)
    assert payloads(watcher, "session")[0]["cursor"] == 1


async def test_reset_changes_the_session_id_of_later_events(world):
    watcher = await world.watcher()
    await world.tell(world.log.add("session", run=None, change="reset", sessionId="generation-2"))
    await world.tell(world.log.add("lifecycle", phase="accepted", prompt="again"))
    assert payloads(watcher, "agent")[0]["sessionId"] == "generation-2"


async def test_end_of_awaited_run_is_noticed_without_a_socket(world):
    with world.hub.run_waits.of(7) as news:
        world.hub.receive_events(world.log.message(*world.log.run("done")))
        assert news.is_set()


async def test_end_of_awaited_run_is_found_by_polling(world):
    with world.hub.run_waits.of(7) as news:
        await world.hub.poll()
        assert not news.is_set()
        world.rows.ended_runs = [7]
        await world.hub.poll()
        assert news.is_set()
    assert not world.hub.run_waits
