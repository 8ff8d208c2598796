"""One WebSocket connection to a gateway with OpenClaw's protocol: sends requests, passes events to listeners."""

import asyncio
import base64
import hashlib
import itertools
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import websockets
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.gateway.options import Options

SCOPES = ["operator.read", "operator.write", "operator.admin", "operator.approvals"]
DEVICE_KEY = Ed25519PrivateKey.generate()

Frame = dict[str, Any]
Listener = Callable[[Frame, float], None]

_connection_count = itertools.count()


class Rejected(Exception):
    """The gateway responded with an error."""


def next_url(opt: Options) -> str:
    return opt.urls[next(_connection_count) % len(opt.urls)]


def connect_params(opt: Options, challenge: Frame) -> Frame:
    params: Frame = {
        "minProtocol": opt.protocol,
        "maxProtocol": opt.protocol,
        "role": "operator",
        "scopes": SCOPES,
        "client": {"id": opt.client_id, "version": "1.0.0", "platform": "linux", "mode": opt.client_mode},
        "caps": opt.caps,
        "auth": {"token": opt.token},
    }
    if opt.device:
        params["device"] = _device(opt, challenge)
    return params


def _device(opt: Options, challenge: Frame) -> Frame:
    public = DEVICE_KEY.public_key().public_bytes_raw()
    device = hashlib.sha256(public).hexdigest()
    fields = ["v3", device, opt.client_id, opt.client_mode, "operator", ",".join(SCOPES)]
    fields += [str(challenge["ts"]), opt.token, challenge["nonce"], "linux", ""]
    signature = DEVICE_KEY.sign("|".join(fields).encode())
    return {
        "id": device,
        "publicKey": _base64(public),
        "signedAt": challenge["ts"],
        "nonce": challenge["nonce"],
        "signature": _base64(signature),
    }


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Gateway:
    """Every event goes to the listeners, with its time of arrival."""

    def __init__(self, opt: Options) -> None:
        self.opt = opt
        self.listeners: list[Listener] = []
        self.frames = self.bytes = self.seq_gaps = 0
        self.hello: Any = None
        self._last_seq: int | None = None
        self._pending: dict[str, asyncio.Future[Frame]] = {}
        self._ws: websockets.ClientConnection
        self._reader: asyncio.Task[None]

    async def connect(self) -> "Gateway":
        self._ws = await websockets.connect(
            next_url(self.opt), max_size=None, compression=None, open_timeout=60, ping_interval=None, max_queue=None
        )
        challenge = orjson.loads(await self._ws.recv())
        assert challenge["event"] == "connect.challenge", challenge
        self._reader = asyncio.create_task(self._read())
        try:
            self.hello = await self.request("connect", connect_params(self.opt, challenge["payload"]))
        except BaseException:
            await self.close()
            raise
        return self

    async def request(self, method: str, params: Frame | None = None, timeout: float = 120) -> Any:
        request_id = uuid.uuid4().hex
        future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = future
        try:
            await self._ws.send(orjson.dumps({"type": "req", "id": request_id, "method": method, "params": params or {}}).decode())
            frame = await asyncio.wait_for(future, timeout)
        finally:
            self._pending.pop(request_id, None)
        if not frame["ok"]:
            raise Rejected(orjson.dumps(frame.get("error")).decode())
        return frame.get("payload")

    async def close(self) -> None:
        self._reader.cancel()
        await self._ws.close()

    async def _read(self) -> None:
        try:
            async for raw in self._ws:
                self._handle(raw, time.time())
        except websockets.ConnectionClosed:
            pass
        finally:
            for future in self._pending.values():
                if not future.done():
                    future.set_exception(ConnectionError("the gateway closed the connection"))

    def _handle(self, raw: str | bytes, now: float) -> None:
        self.frames += 1
        self.bytes += len(raw)
        frame = orjson.loads(raw)
        if frame["type"] == "res":
            future = self._pending.get(frame["id"])
            if future and not future.done():
                future.set_result(frame)
        elif frame["type"] == "event":
            if (seq := frame.get("seq")) is not None:
                self.seq_gaps += self._last_seq is not None and seq != self._last_seq + 1
                self._last_seq = seq
            for listener in self.listeners:
                listener(frame, now)


async def connect_when_up(opt: Options, limit: float = 120) -> Gateway:
    """Connect as soon as a starting gateway accepts connections."""
    deadline = time.time() + limit
    while True:
        try:
            return await Gateway(opt).connect()
        except (OSError, AssertionError, Rejected, TimeoutError, websockets.WebSocketException):
            if time.time() > deadline:
                raise
            await asyncio.sleep(0.02)


async def wait_until_up(opt: Options) -> None:
    """Wait until every address of the gateway accepts connections."""
    for url in opt.urls:
        gateway = await connect_when_up(replace(opt, urls=[url]))
        await gateway.close()


def session_key(opt: Options, name: str) -> str:
    return f"agent:{opt.agent}:bench-{name}-{uuid.uuid4().hex[:8]}"
