"""A real server in the test's own loop, real sockets to it, and a hand that does a worker's work step by step."""

import asyncio
import contextlib
import datetime as dt
import json
import socket
import uuid
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from agents import maintenance
from clawsite.cli.serving.frame_limit import HandshakeLimitProtocol
from clawsite.infra import clock, db
from sessions_app.events import epoch
from sessions_app.events.journal import NewEntry, NewEvent
from sessions_app.models import Event, Run
from sessions_app.runs import freezes, queue
from sessions_app.runs.compaction_requests import COMPACTED, NOTHING_TO_COMPACT
from sessions_app.runs.lifecycle import build_end_event
from sessions_app.runs.queue import ClaimedRun
from tests.harness.schema_check import Published

PATIENCE = 20.0  # a guard against hangs
BACKGROUND = {"tick", "presence", "health", "sessions.changed"}


class Server(uvicorn.Server):
    """As `claw web` serves it: the application says goodbye while its sockets are still open."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.shutdown()
        await super().shutdown(sockets)


@contextlib.asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[str]:
    """-> host:port of a server that ends with the block. `options` are uvicorn's."""
    from clawsite.asgi import application

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application,
        ws=HandshakeLimitProtocol,
        ws_max_size=26_214_400 + 1024,
        ws_per_message_deflate=False,
        lifespan="on",
        log_config=None,
        **options,
    )
    server = Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    await asyncio.wait_for(server.listening.wait(), PATIENCE)
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


class Socket:
    """One client. Reads in the background, so that a test may look for the frame it wants and ignore the others.

    Whatever comes must be as it is published, also what the test does not look at.
    """

    def __init__(self, ws: ClientConnection) -> None:
        self.ws = ws
        self.seen: list[dict[str, Any]] = []
        self.faults: list[str] = []
        self._published = Published()
        self.hello: dict[str, Any] = {}
        self._new = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for text in self.ws:
                frame = json.loads(text)
                self.faults += self._published.faults(frame)
                self.seen.append(frame)
                self._new.set()
        self._new.set()

    async def find(self, wanted: Any, start: int = 0) -> dict[str, Any]:
        """The first frame, from `start` on, for which `wanted(frame)` holds; waits for it to come."""
        at = start
        async with asyncio.timeout(PATIENCE):
            while True:
                assert not self.faults, "\n".join(self.faults)
                while at < len(self.seen):
                    if wanted(self.seen[at]):
                        return self.seen[at]
                    at += 1
                if self._reader.done():
                    raise AssertionError(f"closed with {self.ws.close_code} {self.ws.close_reason!r}; got {self.seen[start:]}")
                self._new.clear()
                await self._new.wait()

    async def send(self, frame: Any) -> None:
        text = json.dumps(frame) if not isinstance(frame, (str, bytes)) else frame
        self._published.asked(text)
        await self.ws.send(text)

    async def request(self, method: str, params: dict[str, Any] | None = None, **frame: Any) -> dict[str, Any]:
        """The whole answer frame."""
        id = uuid.uuid4().hex
        await self.send({"type": "req", "id": id, "method": method, "params": params or {}, **frame})
        return await self.answer(id)

    async def answer(self, id: str, nth: int = 1) -> dict[str, Any]:
        found = 0

        def is_it(frame: dict[str, Any]) -> bool:
            nonlocal found
            found += frame.get("type") == "res" and frame.get("id") == id
            return found == nth

        return await self.find(is_it)

    async def call(self, method: str, params: dict[str, Any] | None = None) -> Any:
        """The payload of a successful answer."""
        frame = await self.request(method, params)
        assert frame["ok"], frame
        return frame["payload"]

    async def event(self, name: str, **payload: Any) -> dict[str, Any]:
        """The first event of that name whose payload has these values."""
        frame = await self.find(
            lambda f: f.get("event") == name and all((f["payload"] or {}).get(key) == value for key, value in payload.items())
        )
        return frame["payload"]

    def events(self, name: str) -> list[dict[str, Any]]:
        return [frame["payload"] for frame in self.seen if frame.get("event") == name]

    async def closed(self) -> tuple[int, str]:
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([self._reader])
        return self.ws.close_code or 0, self.ws.close_reason or ""

    async def close(self) -> None:
        await self.ws.close()
        await asyncio.wait([self._reader])


class Sockets:
    """Opens sockets and closes those a test leaves open."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._open: list[Socket] = []

    async def open(self, path: str = "/ws", headers: dict[str, str] | None = None, **options: Any) -> Socket:
        """A socket that has not shaken hands."""
        url = f"ws://{self.address}{path}"
        ws = await connect(url, additional_headers=headers or {}, compression=None, max_size=None, ping_interval=None, **options)
        self._open.append(Socket(ws))
        return self._open[-1]

    async def connect(
        self, token: str | None = None, *, protocol: int = 4, headers: dict[str, str] | None = None, **params: Any
    ) -> Socket:
        """A socket after its handshake; without a token it brings the gateway's."""
        opened = await self.open(headers=headers)
        first = {
            "minProtocol": protocol,
            "maxProtocol": protocol,
            "client": {"id": "test", "version": "1", "platform": "linux", "mode": "test"},
            "auth": {"token": "test-gateway-token" if token is None else token},
            **params,
        }
        opened.hello = await opened.call("connect", first)
        return opened

    async def close(self) -> None:
        for opened in self._open:
            await opened.close()
        faults = [fault for opened in self._open for fault in opened.faults]
        assert not faults, "\n".join(faults)


class Hand:
    """Does what a worker does to runs, one step at a time."""

    def __init__(self) -> None:
        self.held: dict[str, ClaimedRun] = {}
        self.texts: dict[str, str] = {}

    async def start(self, run_id: str) -> None:
        claimed = (await db.write(queue.claim_runs, "hand", 64, alone=True)).runs
        self.held |= {one.run_id: one for one in claimed}
        assert run_id in self.held, f"{run_id} cannot start"
        self.texts[run_id] = ""

    async def say(self, run_id: str, *deltas: str) -> None:
        new = []
        for delta in deltas:
            data = {"messageId": f"m-{run_id}", "attempt": 1, "delta": delta, "offset": len(self.texts[run_id])}
            new.append(NewEvent("assistant", data))
            self.texts[run_id] += delta
        await db.write(queue.append_events, [(self.held[run_id], new)], key=str(self.held[run_id].session_id))

    async def use(self, run_id: str, name: str, **result: Any) -> None:
        call = {"name": name, "toolCallId": f"t-{run_id}"}
        failed = bool(result.get("isError"))
        new = [
            NewEvent("tool", {"phase": "start", **call, "args": {}}),
            NewEvent("tool", {"phase": "result", **call, "isError": failed, "result": {"content": [], "details": {}}}),
        ]
        await db.write(queue.append_events, [(self.held[run_id], new)], key=str(self.held[run_id].session_id))

    async def finish(self, run_id: str) -> None:
        """Store the answer and end the run."""
        claimed, text = self.held.pop(run_id), self.texts[run_id]
        content = [{"type": "text", "text": text}]
        message = {"role": "assistant", "content": content, "timestamp": 1, "messageId": f"m-{run_id}"}
        final = NewEvent("assistant", {"messageId": f"m-{run_id}", "attempt": 1, "final": True, "message": message})
        entry = NewEntry("message", "assistant", content, text, f"m-{run_id}", {"stopReason": "stop"})
        last = build_end_event(Run.Status.COMPLETED, "stop", startedAt=claimed.started_ms)
        step = {"events": [final, last], "entries": [entry], "model": "openai/fake-1", "input_tokens": 3, "output_tokens": 5}
        await db.write(queue.write_step, claimed, to=Run.Status.COMPLETED, reason="stop", **step, key=str(claimed.session_id))

    async def summarise(self, run_id: str, text: str, through: str) -> None:
        """End a run that was asked to summarise the session through that message."""
        claimed = self.held.pop(run_id)
        meta = {"summarisedThrough": through, "kept": 2}
        entry = NewEntry("compaction", "", [{"type": "text", "text": text}], text, f"s-{run_id}", meta)
        start = NewEvent("compaction", {"phase": "start", "reason": "manual"})
        told = {"phase": "end", "willRetry": False, "completed": True, "reason": "manual", "messageId": f"s-{run_id}", "text": text}
        last = build_end_event(Run.Status.COMPLETED, COMPACTED, startedAt=claimed.started_ms)
        await db.write(queue.write_step, claimed, events=[start], key=str(claimed.session_id))
        step = {"events": [NewEvent("compaction", told), last], "entries": [entry]}
        await db.write(queue.write_step, claimed, to=Run.Status.COMPLETED, reason=COMPACTED, **step, key=str(claimed.session_id))

    async def nothing_to_summarise(self, run_id: str) -> None:
        claimed = self.held.pop(run_id)
        told = NewEvent("compaction", {"phase": "end", "willRetry": False, "completed": False, "reason": NOTHING_TO_COMPACT})
        last = build_end_event(Run.Status.COMPLETED, NOTHING_TO_COMPACT, startedAt=claimed.started_ms)
        await db.write(
            queue.write_step,
            claimed,
            to=Run.Status.COMPLETED,
            reason=NOTHING_TO_COMPACT,
            events=[told, last],
            key=str(claimed.session_id),
        )

    async def fail(self, run_id: str, error: str, kind: str = "unavailable") -> None:
        claimed = self.held.pop(run_id)
        await db.write(queue.end_run, claimed, Run.Status.FAILED, kind, error, key=str(claimed.session_id))

    async def abort(self, run_id: str, reason: str = "rpc") -> None:
        claimed = self.held.pop(run_id)
        await db.write(queue.end_run, claimed, Run.Status.ABORTED, reason, key=str(claimed.session_id))

    async def stop_run(self, run_id: str) -> None:
        """What `claw panic --run` does on the host."""
        pk = await db.read(Run.objects.values_list("pk", flat=True).get, run_id=run_id)
        await db.write(freezes.freeze, "run", str(pk), reason="it deletes files", by=None, by_name="host", alone=True)

    async def restored(self) -> None:
        """The database came from a backup."""
        await db.write(epoch.start_new_epoch)

    async def months_pass(self, *run_ids: str) -> None:
        """These runs ended 40 days ago, and the worker keeps house."""
        moment = clock.now() - dt.timedelta(days=40)
        await db.write(Run.objects.filter(run_id__in=run_ids).update, ended_at=moment)
        await db.write(Event.objects.filter(run__run_id__in=run_ids).update, ts=clock.to_ms(moment))
        await maintenance.delete_old_events()

    async def whole_run(self, run_id: str, *deltas: str) -> None:
        await self.start(run_id)
        await self.say(run_id, *deltas)
        await self.finish(run_id)
