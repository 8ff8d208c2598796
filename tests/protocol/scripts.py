"""Play scripted conversations with the gateway, one JSON object per line.

    {"conversation": "a sentence"}      starts a script; the sentence is the test's name
    {"open": {"headers": {…}}}          opens a socket explicitly; otherwise the first line that needs one opens it
    {"connect": {…}}                    challenge, connect with these parameters in addition to the default ones, hello-ok
    {"send": {…}} {"text": "…"} {"binary": 3} {"large": 30000000}
    {"expect": {…}}                     the next response (it has an id) or the next event matches; responses and events are
                                        ordered independently, and background events are skipped; `session.message` is
                                        ordered separately, because it is read from rows after the event it follows
    {"close": 1008, "reason": "…"}      the server closes, with a reason that starts with this text
    {"do": ["start", "run-1"]}          a method of ManualWorker
    {"set": {"NAME": 1}}                a setting, before the socket is opened
    "on": "b" in any line               uses another socket than "a"

In sent frames, "$name" is replaced by a known value or one that an earlier line has saved. Expected dicts may have more keys;
"$any" matches anything, "$int" and "$text" a value of that type, "$absent" a missing key, "$=name" saves the value,
{"$has": [...]} a list that contains these, {"$starts": "x"} a text that starts with x. At the end the events of every socket
must be numbered without gaps.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed

from tests.harness.manual_worker import ManualWorker
from tests.harness.protocol import BACKGROUND_EVENTS, SocketClient, SocketClients, connect_params

Line = dict[str, Any]
MESSAGE = "session.message"


def read_scripts(file: Path) -> Iterator[tuple[str, list[Line]]]:
    name, lines = "", []
    for text in file.read_text().splitlines():
        if not text.strip():
            continue
        line = json.loads(text)
        if "conversation" in line:
            if lines:
                yield name, lines
            name, lines = line["conversation"], []
        else:
            lines.append(line)
    yield name, lines


class ScriptPlayer:
    def __init__(self, sockets: SocketClients, worker: ManualWorker, settings: Any, known: dict[str, Any]) -> None:
        self.sockets, self.worker, self.settings, self.known = sockets, worker, settings, dict(known)
        self.open: dict[str, SocketClient] = {}
        self.read: dict[tuple[str, str], int] = {}

    async def play(self, lines: list[Line]) -> None:
        for line in lines:
            await self.step(line)
        for socket in self.open.values():
            numbers = [frame["seq"] for frame in socket.seen if "seq" in frame]
            assert numbers == list(range(1, len(numbers) + 1))

    async def step(self, line: Line) -> None:
        on = line.get("on", "a")
        match line:
            case {"set": values}:
                for name, value in values.items():
                    setattr(self.settings, name, value)
            case {"do": [what, *arguments]}:
                await getattr(self.worker, what)(*self.filled(arguments))
            case {"open": options}:
                await self.socket(on, **self.filled(options))
            case {"connect": params}:
                await self.connect(await self.socket(on), on, self.filled(params))
            case {"send": frame}:
                await (await self.socket(on)).send(self.filled(frame))
            case {"text": text}:
                await (await self.socket(on)).send(text)
            case {"binary": size}:
                await (await self.socket(on)).send(b"\x00" * size)
            case {"large": size}:
                frame = {"type": "req", "id": "large", "method": "health", "params": {"x": ""}}
                frame["params"]["x"] = "x" * (size - len(json.dumps(frame)))
                with contextlib.suppress(ConnectionClosed):  # the server closes before it has read all of it
                    await (await self.socket(on)).send(frame)
            case {"expect": wanted}:
                await self.expect(on, wanted)
            case {"close": code}:
                found, reason = await (await self.socket(on)).closed()
                assert (found, reason[: len(line.get("reason", ""))]) == (code, line.get("reason", ""))
            case _:
                raise AssertionError(f"unknown step: {line}")

    async def socket(self, on: str, **options: Any) -> SocketClient:
        if on not in self.open:
            self.open[on] = await self.sockets.open(**options)
        return self.open[on]

    async def connect(self, socket: SocketClient, on: str, params: Line) -> None:
        await self.expect(on, {"event": "connect.challenge"})
        params = connect_params(self.known["gateway"], **params)
        await socket.send({"type": "req", "id": "connect", "method": "connect", "params": params})
        await self.expect(on, {"type": "res", "id": "connect", "ok": True})

    async def expect(self, on: str, wanted: Line) -> None:
        """Check the next frame of that type which was not checked before."""
        socket = await self.socket(on)
        kind = "res" if "id" in wanted or wanted.get("type") == "res" else "event"
        queue = MESSAGE if wanted.get("event") == MESSAGE else kind
        others = {MESSAGE, *BACKGROUND_EVENTS} - {wanted.get("event")}
        start = self.read.get((on, queue), 0)

        def is_next(frame: Line) -> bool:
            return frame["type"] == kind and (frame["event"] == MESSAGE if queue == MESSAGE else frame.get("event") not in others)

        frame = await socket.find(is_next, start)
        self.read[on, queue] = next(at for at in range(start, len(socket.seen)) if socket.seen[at] is frame) + 1
        fault = self.fault(wanted, frame)
        assert fault is None, f"{fault}\nwanted {json.dumps(wanted)}\ngot    {json.dumps(frame)}"

    def filled(self, value: Any) -> Any:
        match value:
            case str() if value.startswith("$") and value[1:] in self.known:
                return self.known[value[1:]]
            case dict():
                return {name: self.filled(part) for name, part in value.items()}
            case list():
                return [self.filled(part) for part in value]
        return value

    def fault(self, wanted: Any, found: Any, at: str = "") -> str | None:
        """Return the first difference, or None."""
        match wanted:
            case "$any":
                return None
            case "$int" | "$text":
                right = isinstance(found, int if wanted == "$int" else str)
                return None if right else f"{at} is {found!r}"
            case str() if wanted.startswith("$="):
                self.known[wanted[2:]] = found
                return None
            case {"$has": items}:
                missing = [item for item in items if item not in (found or [])]
                return f"{at} lacks {missing}" if missing else None
            case {"$starts": start}:
                return None if isinstance(found, str) and found.startswith(start) else f"{at} is {found!r}"
            case dict():
                return self._dict_fault(wanted, found, at)
            case list():
                if not isinstance(found, list) or len(found) != len(wanted):
                    return f"{at} is {found!r}"
                return next((f for i, part in enumerate(wanted) if (f := self.fault(part, found[i], f"{at}/{i}"))), None)
        wanted = self.filled(wanted)
        return None if wanted == found else f"{at} is {found!r}, not {wanted!r}"

    def _dict_fault(self, wanted: Line, found: Any, at: str) -> str | None:
        if not isinstance(found, dict):
            return f"{at} is {found!r}"
        for name, part in wanted.items():
            if part == "$absent":
                if name in found:
                    return f"{at}/{name} is there"
            elif name not in found:
                return f"{at}/{name} is missing"
            elif fault := self.fault(part, found[name], f"{at}/{name}"):
                return fault
        return None
