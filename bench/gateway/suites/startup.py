"""The time to start and to connect, and the memory of an idle gateway."""

import asyncio
import time

from bench.gateway.client import Gateway, connect_when_up, session_key
from bench.gateway.figures import Result, milliseconds
from bench.gateway.options import Options
from bench.gateway.processes import Meter, memory
from bench.gateway.runs import Runs, clear_model_log, model_log_by_tag, overhead_of

NEXT_RUNS = 10


async def coldstart(opt: Options) -> Result:
    """The time from process start to the first connection and to the end of the first run; idle memory. Needs a launcher."""
    assert opt.launcher, "coldstart starts the gateway itself: pass its command with --start"
    started = time.time()
    opt.pids = opt.launcher.start()
    try:
        gateway = await connect_when_up(opt)
        connected = time.time() - started
        run = await Runs(gateway, opt.method).run(session_key(opt, "cold"), "tokens=10")
        first_run = time.time() - started
        after_run = memory(opt.pids)
        with Meter(opt) as meter:
            await asyncio.sleep(opt.settle)
        idle = memory(opt.pids)
        await gateway.close()
        return {
            "start_to_connect_s": round(connected, 3),
            "start_to_first_run_done_s": round(first_run, 3),
            "first_run_state": run.get("state"),
            "memory_after_first_run": after_run,
            "memory_idle": idle,
            "idle": meter.result,
        }
    finally:
        opt.launcher.stop()
        opt.pids = []


async def first_run(opt: Options) -> Result:
    """How much longer the first run of a fresh process takes to the model than the next ones. Needs a launcher.

    It starts when the processes have been idle for `settle` seconds.
    """
    assert opt.launcher, "first_run starts the gateway itself: pass its command with --start"
    opt.pids = opt.launcher.start()
    try:
        gateway = await connect_when_up(opt)
        await asyncio.sleep(opt.settle)
        runs, key = Runs(gateway, opt.method), session_key(opt, "first")
        await clear_model_log(opt)
        first, *others = [await runs.run(key, "tokens=10") for _ in range(1 + NEXT_RUNS)]
        log = await model_log_by_tag(opt)
        await gateway.close()
        first_ms, next_ms = (overhead_of(part, log)["req_to_llm_ms"] for part in ([first], others))
        extra = round(first_ms["p50"] - next_ms["p50"], 2) if first_ms and next_ms else None
        return {"first": first_ms, "next": next_ms, "extra_ms": extra}
    finally:
        opt.launcher.stop()
        opt.pids = []


async def connect(opt: Options) -> Result:
    """The time for TCP connection, upgrade, challenge, connect and hello-ok."""
    samples, hello = [], 0
    with Meter(opt) as meter:
        for _ in range(opt.n or 100):
            started = time.time()
            gateway = await Gateway(opt).connect()
            samples.append(time.time() - started)
            hello = gateway.bytes
            await gateway.close()
    return {"connect_ms": milliseconds(samples), "hello_bytes": hello, **meter.result}


async def rss(opt: Options) -> Result:
    """The current memory."""
    return {"memory": memory(opt.pids)}
