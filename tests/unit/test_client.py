"""The Python client across lost connections: every event once and in order."""

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


async def test_follow_reads_stored_events_in_pages_and_continues_live(gateway: StubGateway) -> None:
    for seq in range(1, 8):
        await gateway.write("r1", seq, "assistant", delta=str(seq))
    async with Client(gateway.endpoint()) as client:
        events = client.follow(KEY)
        assert [event.data["delta"] for event in await take(events, 7)] == list("1234567")
        await gateway.write("r1", 8, "assistant", delta="8")
        assert [event.cursor for event in await take(events, 1)] == [8]
        await events.aclose()


async def test_follow_without_live_ends_at_the_latest_event(gateway: StubGateway) -> None:
    for seq in range(1, 6):
        await gateway.write("r1", seq, "thinking", delta="x")
    async with Client(gateway.endpoint()) as client:
        assert [event.cursor async for event in client.follow(KEY, 2, live=False)] == [3, 4, 5]


async def test_event_missing_from_the_live_stream_is_read_from_the_log(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        events = client.follow(KEY)
        await gateway.write("r1", 1, "assistant", delta="a")
        await take(events, 1)
        await gateway.write("r1", 2, "assistant", live=False, delta="b")
        await gateway.write("r1", 3, "assistant", delta="c")
        assert [event.data["delta"] for event in await take(events, 2)] == ["b", "c"]
        await gateway.write("r1", 4, "assistant", delta="d")
        assert [event.data["delta"] for event in await take(events, 1)] == ["d"]
        await events.aclose()


async def test_lost_connection_neither_loses_nor_repeats_events(gateway: StubGateway) -> None:
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


async def test_events_of_other_sessions_and_kinds_are_ignored(gateway: StubGateway) -> None:
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


async def test_deleted_events_raise_events_gone(gateway: StubGateway) -> None:
    for seq in range(1, 6):
        await gateway.write("r1", seq, "assistant", delta="x")
    gateway.kept_from = 4
    async with Client(gateway.endpoint()) as client:
        with pytest.raises(EventsGone, match="no longer stored"):
            await anext(client.follow(KEY, 1))
        assert [event.cursor async for event in client.follow(KEY, live=False)] == [4, 5]


async def test_follower_must_reload_after_a_restore(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        events = client.follow(KEY)
        await gateway.write("r1", 1, "assistant", delta="a")
        await take(events, 1)
        gateway.log.clear()
        gateway.epoch = "e2"
        for seq in range(1, 4):
            await gateway.write("r2", seq, "assistant", live=False, delta="b")  # the log has passed the cursor
        await gateway.drop_all()
        with pytest.raises(EventsGone, match="restored"):
            await anext(events)
        assert [event.cursor async for event in client.follow(KEY, live=False)] == [1, 2, 3]


async def test_remembered_cursor_is_only_valid_in_its_epoch(gateway: StubGateway) -> None:
    for seq in range(1, 4):
        await gateway.write("r1", seq, "assistant", delta="x")
    async with Client(gateway.endpoint()) as client:
        assert [event.cursor async for event in client.follow(KEY, 2, epoch="e1", live=False)] == [3]
        with pytest.raises(EventsGone, match="restored"):
            await anext(client.follow(KEY, 2, epoch="e0"))


async def test_run_lost_in_a_restore_raises_events_gone(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        events = client.run("hi", session_key=KEY, idempotency_key="r1")
        first = asyncio.create_task(anext(events))
        await gateway.wait_for_request("agent")
        await gateway.write("r1", 1, "lifecycle", phase="start")
        await first
        gateway.epoch = "e2"
        await gateway.drop_all()
        with pytest.raises(EventsGone, match="restored"):
            await anext(events)


async def test_run_is_followed_until_its_end(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        events = client.run("hi", session_key="main", idempotency_key="r1")
        first = asyncio.create_task(anext(events))
        await gateway.wait_for_request("agent")
        await gateway.write("r0", 9, "lifecycle", phase="end")
        await gateway.write("r1", 1, "lifecycle", phase="start")
        await gateway.write("r1", 2, "lifecycle", phase="end")
        await gateway.write("r2", 1, "lifecycle", phase="start")
        assert [(await first).seq, *[event.seq async for event in events]] == [1, 2]


async def test_same_idempotency_key_is_sent_again_after_a_lost_connection(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        events = client.run("hi", session_key=KEY, idempotency_key="r1")
        first = asyncio.create_task(anext(events))
        await gateway.wait_for_request("agent")
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


async def test_run_that_failed_while_disconnected_still_yields_its_events(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        events = client.run("hi", session_key=KEY, idempotency_key="r1")
        first = asyncio.create_task(anext(events))
        await gateway.wait_for_request("agent")
        await gateway.write("r1", 1, "lifecycle", phase="start")
        await first
        failed = {"error": {"code": "UNAVAILABLE", "message": "no key"}, "payload": {"runId": "r1", "status": "error"}}
        gateway.on_request = lambda socket, frame: failed if frame["method"] == "agent" else None
        await gateway.drop_all()
        await gateway.write("r1", 2, "lifecycle", phase="error", error="no key")
        assert [event.data["error"] async for event in events] == ["no key"]


async def test_rejected_run_raises_immediately(gateway: StubGateway) -> None:
    gateway.on_request = lambda socket, frame: (
        {"error": {"code": "QUEUE_FULL", "message": "too many"}} if frame["method"] == "agent" else None
    )
    async with Client(gateway.endpoint()) as client:
        with pytest.raises(GatewayError, match="too many"):
            await anext(client.run("hi", session_key=KEY))


async def test_reconnecting_stops_after_patience_seconds() -> None:
    async with stub_gateway() as gateway:
        client = Client(gateway.endpoint(), patience=0.05)
        await client.connection()
    with pytest.raises(Unreachable):
        while True:
            await client.connection()
            await asyncio.sleep(0)


async def test_revoked_token_is_not_retried(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        gateway.refuse = {"code": "INVALID_REQUEST", "message": "unauthorized", "details": {"code": "AUTH_TOKEN_MISMATCH"}}
        events = client.follow(KEY)
        await gateway.drop_all()
        with pytest.raises(GatewayError, match="unauthorized"):
            await anext(events)


def stored(text: str) -> dict[str, object]:
    return {"final": True, "message": {"role": "assistant", "content": [{"type": "text", "text": text}]}}


async def test_ask_returns_the_last_answer_across_a_reconnect(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        asking = asyncio.create_task(client.ask("hi", session_key=KEY, idempotency_key="r1"))
        await gateway.wait_for_request("agent")
        await gateway.write("r1", 1, "assistant", **stored("Let me look."))
        await gateway.drop_all()
        await gateway.write("r1", 2, "assistant", **stored("It is Tuesday."))
        await gateway.write("r1", 3, "lifecycle", phase="end", aborted=False)
        assert await asyncio.wait_for(asking, 10) == "It is Tuesday."


@pytest.mark.parametrize(
    ("end", "message"),
    [({"phase": "error", "error": "no key"}, "no key"), ({"phase": "end", "aborted": True, "stopReason": "rpc"}, "stopped: rpc")],
)
async def test_ask_raises_the_reason_when_there_is_no_answer(gateway: StubGateway, end: dict[str, object], message: str) -> None:
    async with Client(gateway.endpoint()) as client:
        asking = asyncio.create_task(client.ask("hi", session_key=KEY, idempotency_key="r1"))
        await gateway.wait_for_request("agent")
        await gateway.write("r1", 1, "lifecycle", **end)
        with pytest.raises(RunFailed, match=message) as failed:
            await asyncio.wait_for(asking, 10)
        assert failed.value.run_id == "r1"


async def test_frames_continue_after_a_reconnect(gateway: StubGateway) -> None:
    async with Client(gateway.endpoint()) as client:
        frames = client.frames("exec.approval.requested")

        async def heard(number: int) -> dict[str, object]:
            """Sent repeatedly until a client listens."""
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


def test_token_is_read_from_a_file(tmp_path) -> None:
    (tmp_path / "token").write_text("claw_secret\n")
    endpoint = Endpoint.with_token_file("ws://127.0.0.1:1/ws", tmp_path / "token", scopes=("operator.read",))
    assert (endpoint.token, endpoint.scopes) == ("claw_secret", ("operator.read",))
