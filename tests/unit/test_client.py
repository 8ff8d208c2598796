"""The Python client over losses: every event once, in order, whatever happens to the sockets."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from clawsite.client import Client, Endpoint, Event, EventsGone, GatewayError, RunFailed, Unreachable
from clawsite.client import client as client_module
from tests.unit.stub_gateway import KEY, StubGateway, stub_gateway


@pytest.fixture
async def gateway() -> AsyncIterator[StubGateway]:
    async with stub_gateway() as stub:
        yield stub


@pytest.fixture(autouse=True)
def _quick_redial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "FIRST_DELAY", 0.001)
    monkeypatch.setattr(client_module, "MAX_DELAY", 0.01)


async def take(events: AsyncIterator[Event], count: int) -> list[Event]:
    return [await asyncio.wait_for(anext(events), 10) for _ in range(count)]


async def test_following_reads_what_was_missed_in_pages_and_goes_on_live(gateway: StubGateway) -> None:
    for seq in range(1, 8):
        await gateway.write("r1", seq, "assistant", delta=str(seq))
    async with Client(gateway.endpoint()) as client:
        events = client.follow(KEY)
        assert [event.data["delta"] for event in await take(events, 7)] == list("1234567")
        await gateway.write("r1", 8, "assistant", delta="8")
        assert [event.cursor for event in await take(events, 1)] == [8]
        await events.aclose()


async def test_without_live_it_ends_at_the_head(gateway: StubGateway) -> None:
    for seq in range(1, 6):
        await gateway.write("r1", seq, "thinking", delta="x")
    async with Client(gateway.endpoint()) as client:
        assert [event.cursor async for event in client.follow(KEY, 2, live=False)] == [3, 4, 5]


async def test_an_event_that_was_not_told_is_read_from_the_rows(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        events = client.follow(KEY)
        await gateway.write("r1", 1, "assistant", delta="a")
        await take(events, 1)
        await gateway.write("r1", 2, "assistant", told=False, delta="b")
        await gateway.write("r1", 3, "assistant", delta="c")
        assert [event.data["delta"] for event in await take(events, 2)] == ["b", "c"]
        await gateway.write("r1", 4, "assistant", delta="d")
        assert [event.data["delta"] for event in await take(events, 1)] == ["d"]
        await events.aclose()


async def test_a_loss_in_the_middle_neither_loses_nor_doubles(gateway: StubGateway) -> None:
    lost: list[str] = []
    async with Client(gateway.endpoint(), on_lost=lost.append) as client:
        events = client.follow(KEY)
        await gateway.write("r1", 1, "assistant", delta="a")
        seen = await take(events, 1)
        await gateway.drop_all()
        await gateway.write("r1", 2, "assistant", delta="b")
        await gateway.write("r1", 3, "assistant", delta="c")
        seen += await take(events, 2)
        await gateway.drop_all()
        await gateway.write("r1", 4, "assistant", delta="d")
        seen += await take(events, 1)
        assert [event.cursor for event in seen] == [1, 2, 3, 4]
        assert len(lost) == 2
        await events.aclose()


async def test_events_of_other_sessions_and_other_kinds_pass_by(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        events = client.follow(KEY)
        await gateway.write("r1", 1, "assistant", delta="a")
        await take(events, 1)
        other = {"runId": "x", "seq": 1, "stream": "assistant", "ts": 1, "sessionKey": "agent:main:b", "cursor": 2, "data": {}}
        for frame in ({"event": "agent", "payload": other}, {"event": "tick", "payload": {}}, {"event": "chat", "payload": {}}):
            await gateway.sockets[0].send(json.dumps({"type": "event", **frame}))
        await gateway.write("r1", 2, "assistant", delta="b")
        assert [event.cursor for event in await take(events, 1)] == [2]
        await events.aclose()


async def test_events_that_are_no_longer_kept_are_said_to_be_gone(gateway: StubGateway) -> None:
    for seq in range(1, 6):
        await gateway.write("r1", seq, "assistant", delta="x")
    gateway.kept_from = 4
    async with Client(gateway.endpoint()) as client:
        with pytest.raises(EventsGone, match="no longer stored"):
            await anext(client.follow(KEY, 1))
        assert [event.cursor async for event in client.follow(KEY, live=False)] == [4, 5]


async def test_after_a_restore_a_follower_is_told_to_read_anew(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        events = client.follow(KEY)
        await gateway.write("r1", 1, "assistant", delta="a")
        await take(events, 1)
        gateway.log.clear()
        gateway.epoch = "e2"
        for seq in range(1, 4):
            await gateway.write("r2", seq, "assistant", told=False, delta="b")  # the log has passed the cursor
        await gateway.drop_all()
        with pytest.raises(EventsGone, match="restored"):
            await anext(events)
        assert [event.cursor async for event in client.follow(KEY, live=False)] == [1, 2, 3]


async def test_a_remembered_cursor_is_continued_in_its_own_epoch_only(gateway: StubGateway) -> None:
    for seq in range(1, 4):
        await gateway.write("r1", seq, "assistant", delta="x")
    async with Client(gateway.endpoint()) as client:
        assert [event.cursor async for event in client.follow(KEY, 2, epoch="e1", live=False)] == [3]
        with pytest.raises(EventsGone, match="restored"):
            await anext(client.follow(KEY, 2, epoch="e0"))


async def test_a_run_that_was_lost_in_a_restore_ends_with_that_word(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        events = client.run("hi", session_key=KEY, idempotency_key="r1")
        first = asyncio.create_task(anext(events))
        await gateway.asked("agent")
        await gateway.write("r1", 1, "lifecycle", phase="start")
        await first
        gateway.epoch = "e2"
        await gateway.drop_all()
        with pytest.raises(EventsGone, match="restored"):
            await anext(events)


async def test_a_run_is_followed_to_its_end_and_no_further(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        events = client.run("hi", session_key="main", idempotency_key="r1")
        first = asyncio.create_task(anext(events))
        await gateway.asked("agent")
        await gateway.write("r0", 9, "lifecycle", phase="end")
        await gateway.write("r1", 1, "lifecycle", phase="start")
        await gateway.write("r1", 2, "lifecycle", phase="end")
        await gateway.write("r2", 1, "lifecycle", phase="start")
        assert [(await first).seq, *[event.seq async for event in events]] == [1, 2]


async def test_after_a_loss_the_same_key_is_sent_again_and_the_run_continues(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        events = client.run("hi", session_key=KEY, idempotency_key="r1")
        first = asyncio.create_task(anext(events))
        await gateway.asked("agent")
        await gateway.write("r1", 1, "assistant", delta="Hel")
        text = (await first).data["delta"]
        await gateway.drop_all()
        await gateway.write("r1", 2, "assistant", delta="lo")
        await gateway.write("r1", 3, "lifecycle", phase="end")
        async for event in events:
            text += event.data.get("delta", "")
        assert text == "Hello"
        keys = [frame["params"]["idempotencyKey"] for frame in gateway.requests if frame["method"] == "agent"]
        assert keys == ["r1", "r1"]


async def test_a_run_that_failed_while_we_were_away_still_tells_its_events(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        events = client.run("hi", session_key=KEY, idempotency_key="r1")
        first = asyncio.create_task(anext(events))
        await gateway.asked("agent")
        await gateway.write("r1", 1, "lifecycle", phase="start")
        await first
        failed = {"error": {"code": "UNAVAILABLE", "message": "no key"}, "payload": {"runId": "r1", "status": "error"}}
        gateway.on_request = lambda socket, frame: failed if frame["method"] == "agent" else None
        await gateway.drop_all()
        await gateway.write("r1", 2, "lifecycle", phase="error", error="no key")
        assert [event.data["error"] async for event in events] == ["no key"]


async def test_a_refused_run_is_an_error_at_once(gateway: StubGateway) -> None:
    gateway.on_request = lambda socket, frame: (
        {"error": {"code": "QUEUE_FULL", "message": "too many"}} if frame["method"] == "agent" else None
    )
    async with Client(gateway.endpoint()) as client:
        with pytest.raises(GatewayError, match="too many"):
            await anext(client.run("hi", session_key=KEY))


async def test_a_gateway_that_stays_away_ends_the_patience() -> None:
    async with stub_gateway() as gateway:
        client = Client(gateway.endpoint(), patience=0.05)
        await client.connection()
    with pytest.raises(Unreachable):
        while True:
            await client.connection()
            await asyncio.sleep(0)


async def test_a_token_that_was_revoked_meanwhile_is_not_tried_for_ever(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        gateway.refuse = {"code": "INVALID_REQUEST", "message": "unauthorized", "details": {"code": "AUTH_TOKEN_MISMATCH"}}
        events = client.follow(KEY)
        await gateway.drop_all()
        with pytest.raises(GatewayError, match="unauthorized"):
            await anext(events)


def stored(text: str) -> dict[str, object]:
    return {"final": True, "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}}


async def test_asking_returns_the_last_answer_of_the_run_also_over_a_loss(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        asking = asyncio.create_task(client.ask("hi", session_key=KEY, idempotency_key="r1"))
        await gateway.asked("agent")
        await gateway.write("r1", 1, "assistant", **stored("Let me look."))
        await gateway.drop_all()
        await gateway.write("r1", 2, "assistant", **stored("It is Tuesday."))
        await gateway.write("r1", 3, "lifecycle", phase="end", aborted=False)
        assert await asyncio.wait_for(asking, 10) == "It is Tuesday."


@pytest.mark.parametrize(
    ("end", "words"),
    [({"phase": "error", "error": "no key"}, "no key"), ({"phase": "end", "aborted": True, "stopReason": "rpc"}, "stopped: rpc")],
)
async def test_asking_says_why_there_is_no_answer(gateway: StubGateway, end: dict[str, object], words: str) -> None:
    async with Client(gateway.endpoint()) as client:
        asking = asyncio.create_task(client.ask("hi", session_key=KEY, idempotency_key="r1"))
        await gateway.asked("agent")
        await gateway.write("r1", 1, "lifecycle", **end)
        with pytest.raises(RunFailed, match=words) as failed:
            await asyncio.wait_for(asking, 10)
        assert failed.value.run_id == "r1"


async def test_frames_of_a_name_come_over_a_loss(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        frames = client.frames("exec.approval.requested")

        async def heard(number: int) -> dict[str, object]:
            """Told again and again until somebody listens."""
            coming = asyncio.create_task(anext(frames))
            async with asyncio.timeout(10):
                while not coming.done():
                    for name in ("tick", "exec.approval.requested"):
                        for socket in list(gateway.sockets):
                            await socket.send(json.dumps({"type": "event", "event": name, "payload": {"n": number}}))
                    await asyncio.sleep(0.01)
            return await coming

        assert (await heard(1))["event"] == "exec.approval.requested"
        await gateway.drop_all()
        while (frame := await heard(2))["payload"] != {"n": 2}:
            assert frame["event"] == "exec.approval.requested"
        await frames.aclose()


def test_a_token_is_read_from_a_file(tmp_path) -> None:
    (tmp_path / "token").write_text("claw_secret\n")
    endpoint = Endpoint.with_token_file("ws://127.0.0.1:1/ws", tmp_path / "token", scopes=("operator.read",))
    assert (endpoint.token, endpoint.scopes) == ("claw_secret", ("operator.read",))
