"""Measure how a large request body affects others: the lag of `health` on another socket during `/v1/chat/completions`.

    python -m bench.large_body_bench [--database postgres] [--rounds 5] [--out FILE]

nothing       no body is sent
no token      20 MB of empty lists, without a token
too large     the same, with a token
images        eight images, 20 MB in total, with a token: the largest accepted body
many values   the largest accepted number of values, in 2,000 messages
first REST    duration of the first request to the REST API after the process listens (a single time, not a lag)
"""

import asyncio
import base64
import contextlib
import http.client
import os
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import orjson

from bench.django_installation import open_installation, running
from bench.gateway.figures import Result, milliseconds
from bench.installation import TOKEN, Installation
from bench.rounds_command import run_benchmark

LARGE = 20 << 20
PATH = "/v1/chat/completions"
PNG = b"\x89PNG\r\n\x1a\n"
TIMEOUT = 200.0
VALUES = 24  # of each of 2,000 messages
PROMISES = {"images": ("max", 500.0), "many values": ("max", 500.0), "no token": ("max", 100.0), "too large": ("max", 250.0)}


def bodies() -> dict[str, tuple[bytes, bool]]:
    """Return the body for each name, and whether a token is sent."""
    lists = b'{"messages": [' + b"[]," * ((LARGE - 100) // 3) + b"[]]}"
    images = [base64.b64encode(PNG + os.urandom((LARGE * 3 // 4 - 10_000) // 8)).decode() for _ in range(8)]
    parts = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}} for image in images]
    message = {"role": "user", "content": [{"type": "text", "text": "x"}] * (VALUES // 4)}
    return {
        "no token": (lists, False),
        "too large": (lists, True),
        "images": (orjson.dumps({"messages": [{"role": "user", "content": parts}]}), True),
        "many values": (orjson.dumps({"messages": [message] * 1999 + [{"role": "user", "content": "hi"}]}), True),
    }


def post(address: str, body: bytes, with_token: bool) -> str:
    """Return the status, or the name of the connection error."""
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {TOKEN}"} if with_token else {})}
    try:
        with contextlib.suppress(
            BrokenPipeError, ConnectionResetError
        ):  # rejected before it was sent completely; the response is there
            connection.request("POST", PATH, body, headers)
        return str(connection.getresponse().status)
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        connection.close()


def first_request(address: str) -> float:
    started = time.perf_counter()
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", "/api/agents", headers={"Authorization": f"Bearer {TOKEN}"})
    assert connection.getresponse().status == 200
    connection.close()
    return time.perf_counter() - started


async def lags(client: Any, work: "asyncio.Future[Any]", least: float = 1.0) -> list[float]:
    """Return the round-trip times of sequential `health` requests until the work is done."""
    from clawsite.client import ConnectionLost

    times, started = [], time.perf_counter()
    while not work.done() or time.perf_counter() - started < least:
        sent = time.perf_counter()
        with contextlib.suppress(ConnectionLost):  # no response for half a minute: count the lag so far
            await client.request("health", {}, timeout=TIMEOUT)
        times.append(time.perf_counter() - sent)
        await asyncio.sleep(0.005)
    return times


async def run_rounds(installation: Installation, rounds: int) -> Result:
    from clawsite.client import Client, Endpoint

    address = urlsplit(installation.urls[0]).netloc
    result: Result = {"first REST": milliseconds([await asyncio.to_thread(first_request, address)])}
    async with Client(Endpoint(url=installation.urls[0], token=TOKEN)) as client:
        result["nothing"] = milliseconds(await lags(client, asyncio.ensure_future(asyncio.sleep(3))))
        for name, (body, with_token) in bodies().items():
            times: list[float] = []
            statuses: set[str] = set()
            for _ in range(rounds):
                work = asyncio.ensure_future(asyncio.to_thread(post, address, body, with_token))
                times += await lags(client, work)
                statuses.add(work.result())
            result[name] = milliseconds(times)
            print(f"{name}: {len(body) / (1 << 20):.1f} MB, status {', '.join(sorted(statuses))}")
    return result


def measure(database: str, rounds: int) -> Result:
    with open_installation(database) as installation, running(installation):
        return asyncio.run(run_rounds(installation, rounds))


if __name__ == "__main__":
    sys.exit(run_benchmark("bench.large_body_bench", __doc__, measure, PROMISES))
