"""Reading methods: cheap ones, lists with a growing number of sessions, long histories."""

import asyncio
import time
import uuid
from typing import Any

import orjson

from bench.gateway.client import Frame, Gateway, Rejected, session_key
from bench.gateway.figures import Result, milliseconds
from bench.gateway.options import Options
from bench.gateway.processes import Meter, memory

IN_FLIGHT = 8
LISTS: dict[str, Frame] = {
    "default": {},
    "limit_50": {"limit": 50},
    "search_limit_50": {"limit": 50, "search": "fill-00000"},
}
CHEAP: list[tuple[str, Frame]] = [
    ("health", {}),
    ("status", {}),
    ("models.list", {}),
    ("agents.list", {}),
    ("sessions.list", {"limit": 1}),
]


async def timed(gateway: Gateway, method: str, params: Frame, n: int) -> tuple[Result, Any]:
    samples, size, payload = [], 0, None
    for _ in range(n):
        before, started = gateway.bytes, time.time()
        payload = await gateway.request(method, params)
        samples.append(time.time() - started)
        size = gateway.bytes - before
    return {**(milliseconds(samples) or {}), "bytes": size}, payload


async def methods(opt: Options) -> Result:
    """Cheap methods, sessions.list with a growing number of sessions, chat.history of 1,000 messages."""
    gateway = await Gateway(opt).connect()
    out: Result = {}
    n = opt.n or 30
    with Meter(opt) as meter:
        for method, params in CHEAP:
            try:
                out[method + (orjson.dumps(params).decode() if params else "")], _ = await timed(gateway, method, params, n)
            except Rejected as error:
                out[method] = {"rejected": str(error)[:200]}
        await _lists(opt, gateway, out, n)
        await _history(opt, gateway, out, n)
    out["memory"] = memory(opt.pids)
    await gateway.close()
    return {**out, **meter.result}


async def create(opt: Options) -> Result:
    """How many sessions are created per second."""
    gateway = await Gateway(opt).connect()
    try:
        await _fill(opt, gateway, 50)
        with Meter(opt) as meter:
            per_second = await _fill(opt, gateway, opt.n or 1000)
        return {"sessions_per_s": per_second, **meter.result}
    finally:
        await gateway.close()


async def _lists(opt: Options, gateway: Gateway, out: Result, n: int) -> None:
    response = await gateway.request("sessions.list", {"limit": 1})
    count = response.get("totalCount") or response.get("count") or 0
    out["sessions_before"] = count
    for level in opt.levels or [10, 1000, 10000]:
        missing = max(0, level - count)
        if missing:
            out[f"create_{level}_sessions_per_s"] = await _fill(opt, gateway, missing)
        count = max(count, level)
        rows: Result = {}
        for label, params in LISTS.items():
            rows[label], payload = await timed(gateway, "sessions.list", params, n)
            rows[label]["rows"] = len(payload.get("sessions", []))
        out[f"sessions.list_{level}"] = rows


async def _fill(opt: Options, gateway: Gateway, missing: int) -> float:
    limit, started = asyncio.Semaphore(IN_FLIGHT), time.time()

    async def create(number: int) -> None:
        async with limit:
            await gateway.request("sessions.create", {"key": f"agent:{opt.agent}:fill-{number:06d}-{uuid.uuid4().hex[:6]}"})

    await asyncio.gather(*(create(number) for number in range(missing)))
    return round(missing / (time.time() - started), 1)


async def _history(opt: Options, gateway: Gateway, out: Result, n: int) -> None:
    key = session_key(opt, "history")
    await gateway.request("sessions.create", {"key": key})
    started = time.time()
    for number in range(opt.history):
        await gateway.request("chat.inject", {"sessionKey": key, "message": f"message {number} " + "lorem ipsum dolor " * 10})
    out[f"chat.inject_x{opt.history}_per_s"] = round(opt.history / (time.time() - started), 1)
    for limit in (50, 200, 1000):
        rows, payload = await timed(gateway, "chat.history", {"sessionKey": key, "limit": limit}, n)
        out[f"chat.history_limit_{limit}"] = {**rows, "rows": len(payload.get("messages", []))}
