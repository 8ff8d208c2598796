"""Model faults: what the client gets, after how long, and how many requests the model got."""

import asyncio
import sys
import time
import uuid
from typing import Any

import orjson

from bench.gateway.client import Gateway, session_key
from bench.gateway.figures import Result
from bench.gateway.options import Options
from bench.gateway.runs import Run, Runs, final_text, model_log

MARKERS = (
    "tokens=5 slow_first=3",
    "tokens=0",
    "error=500 times=1",
    "error=429 times=1 retry_after=1",
    "tokens=20 cut_after=5 times=1",
    "tokens=20 cut_after=5",
    "context_overflow times=1",
    "context_overflow",
    "error=500",
    "error=429",
    "error=401",  # last, because it may disable the API key
)


async def faults(opt: Options) -> Result:
    gateway = await Gateway(opt).connect()
    runs = Runs(gateway, opt.method)
    out: Result = {"hang, then chat.abort": await _abort_hanging_run(opt, gateway, runs)}
    for markers in MARKERS:
        run = await runs.run(session_key(opt, "fault"), markers, opt.fault_timeout)
        await asyncio.sleep(1)  # to detect late retries
        requests = await model_log(opt, run["tag"])
        payload: dict[str, Any] = run.get("payload") or {}
        out[markers] = {
            "state": run.get("state"),
            "seconds": round(run.get("final", time.time()) - run["sent"], 2),
            "model_requests": len(requests),
            "text": final_text(run)[:120],
            "delta_text": run.get("chat_text", "")[:120],
            "error": str(payload.get("errorMessage", ""))[:200],
            "stopReason": payload.get("stopReason"),
            "fields": sorted(payload),
        }
        print(markers, orjson.dumps(out[markers]).decode(), file=sys.stderr, flush=True)
    await gateway.close()
    return out


async def _abort_hanging_run(opt: Options, gateway: Gateway, runs: Runs) -> Result:
    key, run_id = session_key(opt, "abort"), str(uuid.uuid4())
    run: Run = {"done": asyncio.get_running_loop().create_future()}
    runs.by_id[run_id] = run
    await gateway.request("chat.send", {"sessionKey": key, "message": f"x [[hang tag={run_id}]]", "idempotencyKey": run_id})
    for _ in range(200):
        if await model_log(opt, run_id):
            break
        await asyncio.sleep(0.1)
    started = time.time()
    response = await gateway.request("chat.abort", {"sessionKey": key, "runId": run_id})
    await asyncio.wait_for(run["done"], 60)
    await asyncio.sleep(0.5)
    record = (await model_log(opt, run_id) or [{}])[-1]
    return {
        "response": response,
        "state": run.get("state"),
        "client_notified_ms": round((run["final"] - started) * 1000, 1),
        "model_request_dropped_ms": round((record["end"] - started) * 1000, 1) if "end" in record else None,
    }
