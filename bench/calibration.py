"""Measure this machine without Clawsite: the baseline for all results of the same run.

python -m bench.calibration echo PORT        a WebSocket echo server; `measure` starts it
"""

import asyncio
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import httpx
import websockets

from bench.gateway.figures import Result, milliseconds
from bench.installation import CommandLauncher
from clawsite.infra.config.environment import SQLITE_PRAGMAS
from tests.harness.services import free_port

SAMPLES = 200


async def measure(llm: str) -> Result:
    """Return p50 and p95 in ms of round trips and commits, and the load average."""
    return {
        "python_loop_ms": milliseconds(_spin() for _ in range(5)),
        "websocket_echo_ms": await _echo(),
        "sqlite_commit_ms": milliseconds(_commits()),
        "aiohttp_to_model_ms": await _aiohttp(llm),
        "httpx_to_model_ms": await _httpx(llm),
        "load_average": round(os.getloadavg()[0], 2),
        "cores": os.cpu_count(),
    }


def _spin() -> float:
    """Time a million additions, to compare machines and to detect a shared core."""
    started = time.perf_counter()
    total = 0
    for number in range(1_000_000):
        total += number
    return time.perf_counter() - started


async def _timed(call: Callable[[], Awaitable[object]]) -> Result | None:
    samples = []
    for number in range(SAMPLES + 10):
        started = time.perf_counter()
        await call()
        if number >= 10:  # the first calls open connections and import codecs
            samples.append(time.perf_counter() - started)
    return milliseconds(samples)


async def _echo() -> Result | None:
    port = free_port()
    server = CommandLauncher([sys.executable, "-m", "bench.calibration", "echo", str(port)], log=os.devnull)
    server.start()
    try:
        async with asyncio.timeout(20):
            while True:
                try:
                    socket = await websockets.connect(f"ws://127.0.0.1:{port}", compression=None)
                    break
                except OSError:
                    await asyncio.sleep(0.05)

        async def round_trip() -> None:
            await socket.send("x" * 200)
            await socket.recv()

        result = await _timed(round_trip)
        await socket.close()
        return result
    finally:
        server.stop()


def _commits() -> list[float]:
    """Time transactions that insert one small row, with our pragmas, in the same file system as the temporary servers."""
    samples = []
    with tempfile.TemporaryDirectory(prefix="clawsite-bench-") as directory:
        connection = sqlite3.connect(Path(directory) / "commits.sqlite3", isolation_level=None)
        connection.executescript(SQLITE_PRAGMAS)
        connection.execute("CREATE TABLE row (id INTEGER PRIMARY KEY, text TEXT)")
        for _ in range(SAMPLES):
            started = time.perf_counter()
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO row (text) VALUES ('x')")
            connection.execute("COMMIT")
            samples.append(time.perf_counter() - started)
        connection.close()
    return samples


BODY = {"model": "fake-1", "stream": True, "messages": [{"role": "user", "content": "x [[tokens=1]]"}]}


async def _aiohttp(llm: str) -> Result | None:
    async with aiohttp.ClientSession() as http:

        async def request() -> None:
            async with http.post(f"{llm}/v1/chat/completions", json=BODY) as response:
                await response.read()

        return await _timed(request)


async def _httpx(llm: str) -> Result | None:
    async with httpx.AsyncClient() as http:

        async def request() -> None:
            async with http.stream("POST", f"{llm}/v1/chat/completions", json=BODY) as response:
                await response.aread()

        return await _timed(request)


async def echo_server(port: int) -> None:
    async def echo(socket: websockets.ServerConnection) -> None:
        async for message in socket:
            await socket.send(message)

    async with websockets.serve(echo, "127.0.0.1", port, compression=None) as server:
        await server.serve_forever()


if __name__ == "__main__":
    import uvloop

    uvloop.run(echo_server(int(sys.argv[2])))
