"""What a large body does to everybody else: the lag of another socket's `health` while it is sent to `/v1/chat/completions`.

    python -m bench.large_body_bench [--database postgres] [--rounds 5] [--out FILE]

nothing       nobody sends a body
stranger      20 MB of empty lists, without a token
too much      the same, with a token
images        eight images, 20 MB together, with a token: the largest that is taken
many values   as many values as are taken, in 2,000 messages
first REST    how long the first request to the REST API takes, once the process listens (one figure, not a lag)
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

from bench.gateway.figures import Result, milliseconds
from bench.installation import TOKEN, Installation
from bench.rounds_command import run_benchmark
from bench.django_installation import running, open_installation

LARGE = 20 << 20
PATH = "/v1/chat/completions"
PNG = b"\x89PNG\r\n\x1a\n"
PATIENCE = 200.0
VALUES = 24  # of each of 2,000 messages
PROMISES = {"images": ("max", 500.0), "many values": ("max", 500.0), "stranger": ("max", 100.0), "too much": ("max", 250.0)}


def bodies() -> dict[str, tuple[bytes, bool]]:
    """Name -> what is sent, and whether with a token."""
    lists = b'{"messages": [' + b"[]," * ((LARGE - 100) // 3) + b"[]]}"
    images = [base64.b64encode(PNG + os.urandom((LARGE * 3 // 4 - 10_000) // 8)).decode() for _ in range(8)]
    parts = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}} for image in images]
    spread = {"role": "user", "content": [{"type": "text", "text": "x"}] * (VALUES // 4)}
    return {
        "stranger": (lists, False),
        "too much": (lists, True),
        "images": (orjson.dumps({"messages": [{"role": "user", "content": parts}]}), True),
        "many values": (orjson.dumps({"messages": [spread] * 1999 + [{"role": "user", "content": "hi"}]}), True),
    }


def post(address: str, body: bytes, known: bool) -> str:
    """The status, or how the connection ended."""
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {TOKEN}"} if known else {})}
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before it had all come: the answer is there
            connection.request("POST", PATH, body, headers)
        return str(connection.getresponse().status)
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        connection.close()


def first_request(address: str) -> float:
    began = time.perf_counter()
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", "/api/agents", headers={"Authorization": f"Bearer {TOKEN}"})
    assert connection.getresponse().status == 200
    connection.close()
    return time.perf_counter() - began


async def lags(client: Any, work: "asyncio.Future[Any]", least: float = 1.0) -> list[float]:
    """Round trips of `health`, one after the other, until the work is done."""
    from clawsite.client.connection import ConnectionLost

    taken, began = [], time.perf_counter()
    while not work.done() or time.perf_counter() - began < least:
        asked = time.perf_counter()
        with contextlib.suppress(ConnectionLost):  # a server that is silent for half a minute is given up: as bad as it gets
            await client.request("health", {}, timeout=PATIENCE)
        taken.append(time.perf_counter() - asked)
        await asyncio.sleep(0.005)
    return taken


async def rounds_of(installation: Installation, rounds: int) -> Result:
    from clawsite.client.client import Client, Endpoint

    address = urlsplit(installation.urls[0]).netloc
    found: Result = {"first REST": milliseconds([await asyncio.to_thread(first_request, address)])}
    async with Client(Endpoint(url=installation.urls[0], token=TOKEN)) as client:
        found["nothing"] = milliseconds(await lags(client, asyncio.ensure_future(asyncio.sleep(3))))
        for name, (body, known) in bodies().items():
            taken: list[float] = []
            answers: set[str] = set()
            for _ in range(rounds):
                work = asyncio.ensure_future(asyncio.to_thread(post, address, body, known))
                taken += await lags(client, work)
                answers.add(work.result())
            found[name] = milliseconds(taken)
            print(f"{name}: {len(body) / (1 << 20):.1f} MB, answered {', '.join(sorted(answers))}")
    return found


def measure(database: str, rounds: int) -> Result:
    with open_installation(database) as installation, running(installation):
        return asyncio.run(rounds_of(installation, rounds))


if __name__ == "__main__":
    sys.exit(run_benchmark("bench.large_body_bench", __doc__, measure, PROMISES))
