"""POST /v1/chat/completions: with the openai SDK, streamed and plain, sequential and concurrent; with aiohttp, many at a time."""

import asyncio
import time
import uuid
from typing import TYPE_CHECKING

import aiohttp

from bench.gateway.figures import Result, milliseconds
from bench.gateway.options import Options
from bench.gateway.processes import Meter
from bench.gateway.runs import Record, Run, clear_model_log, model_log_by_tag

if TYPE_CHECKING:
    from openai import AsyncOpenAI

TOKENS = 100
CONCURRENCY = 10
MANY = 50


async def http(opt: Options) -> Result:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=f"{opt.http_url}/v1", api_key=opt.token, max_retries=0, timeout=120)
    await clear_model_log(opt)
    await _complete(opt, client, stream=True)
    out: Result = {}
    for stream in (True, False):
        name = "stream" if stream else "plain"
        sequential = [await _complete(opt, client, stream) for _ in range(opt.n or 30)]
        limit = asyncio.Semaphore(CONCURRENCY)

        async def limited(stream: bool = stream, limit: asyncio.Semaphore = limit) -> Run:
            async with limit:
                return await _complete(opt, client, stream)

        with Meter(opt) as meter:
            concurrent = await asyncio.gather(*(limited() for _ in range(opt.requests)))
        log = await model_log_by_tag(opt)
        out[f"{name}_sequential"] = _stats(sequential, log)
        out[f"{name}_concurrency_{CONCURRENCY}"] = {
            **_stats(concurrent, log),
            "req_per_s": round(opt.requests / meter.seconds, 2),
            **meter.result,
        }
    return out


async def http_many(opt: Options) -> Result:
    """Plain requests, 50 at a time. With aiohttp, because the SDK takes as much CPU as the gateway."""
    limit = asyncio.Semaphore(MANY)
    headers = {"Authorization": f"Bearer {opt.token}"}
    async with aiohttp.ClientSession(opt.http_url, headers=headers, connector=aiohttp.TCPConnector(limit=MANY)) as client:

        async def complete() -> Run:
            run: Run = {}
            message = {"role": "user", "content": f"bench [[tokens={TOKENS} delay_ms=0]]"}
            async with limit:
                started = time.time()
                async with client.post("/v1/chat/completions", json={"model": opt.http_model, "messages": [message]}) as response:
                    run["ok"] = response.status == 200
                    await response.read()
                run["seconds"] = time.time() - started
            return run

        await asyncio.gather(*(complete() for _ in range(MANY)))
        with Meter(opt) as meter:
            runs = await asyncio.gather(*(complete() for _ in range(opt.n or 500)))
    ok = [run for run in runs if run["ok"]]
    return {
        "errors": len(runs) - len(ok),
        "req_per_s": round(len(ok) / meter.seconds, 2),
        "request_ms": milliseconds(run["seconds"] for run in ok),
        **meter.result,
    }


async def _complete(opt: Options, client: "AsyncOpenAI", stream: bool) -> Run:
    tag = uuid.uuid4().hex[:12]
    run: Run = {"tag": tag, "sent": time.time()}
    content = f"bench [[tokens={TOKENS} delay_ms=0 tag={tag}]]"
    try:
        if stream:
            text = ""
            chunks = await client.chat.completions.create(
                model=opt.http_model, messages=[{"role": "user", "content": content}], stream=True
            )
            async for chunk in chunks:
                if chunk.choices and chunk.choices[0].delta.content:
                    run.setdefault("first_delta", time.time())
                    text += chunk.choices[0].delta.content
        else:
            reply = await client.chat.completions.create(model=opt.http_model, messages=[{"role": "user", "content": content}])
            text = reply.choices[0].message.content or ""
        run["whole"] = text.split() == [f"w{i}" for i in range(TOKENS)]
        run["state"] = "final"
    except Exception as error:  # counted instead of raised
        run["state"] = f"{type(error).__name__}: {error}"[:160]
    run["final"] = time.time()
    return run


def _stats(runs: list[Run], log: dict[str, Record]) -> Result:
    ok = [run for run in runs if run["state"] == "final" and run["tag"] in log]
    pairs = [(run, log[run["tag"]]) for run in ok]
    return {
        "ok": len(ok),
        "errors": len(runs) - len(ok),
        "whole_text": sum(run["whole"] for run in ok),
        "error_examples": sorted({run["state"] for run in runs if run["state"] != "final"})[:3],
        "req_to_llm_ms": milliseconds(model["received"] - run["sent"] for run, model in pairs),
        "first_chunk_lag_ms": milliseconds(run["first_delta"] - model["first"] for run, model in pairs if "first_delta" in run),
        "end_lag_ms": milliseconds(run["final"] - model["last"] for run, model in pairs),
        "total_ms": milliseconds(run["final"] - run["sent"] for run in ok),
    }
