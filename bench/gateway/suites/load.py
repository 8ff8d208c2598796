"""Sequential runs, concurrent runs, and one run with many watching clients."""

import asyncio
import time

from bench.gateway.client import Gateway, session_key
from bench.gateway.figures import Result
from bench.gateway.options import Options
from bench.gateway.processes import Meter
from bench.gateway.runs import Run, Runs, clear_model_log, has_whole_text, model_log_by_tag, overhead_of
from bench.gateway.watchers import WatcherProcess

TOKENS = 100


async def overhead(opt: Options) -> Result:
    """Sequential runs: all in one session, then each in a new session."""
    gateway = await Gateway(opt).connect()
    runs = Runs(gateway, opt.method)
    await runs.run(session_key(opt, "warm"), "tokens=5")
    out: Result = {}
    for name in ("one_session", "fresh_sessions"):
        await clear_model_log(opt)
        key, done = session_key(opt, name), []
        with Meter(opt) as meter:
            for number in range(opt.n or 50):
                session = key if name == "one_session" else f"{key}-{number}"
                done.append(await runs.run(session, "tokens=20 delay_ms=5 stamp"))
                await asyncio.sleep(opt.gap)
        out[name] = {**overhead_of(done, await model_log_by_tag(opt)), **meter.result}
    await gateway.close()
    return out


async def throughput(opt: Options) -> Result:
    """N concurrent sessions with sequential runs, on one connection or one connection each."""
    out: Result = {}
    for sessions in opt.levels or [1, 10, 50, 100]:
        await clear_model_log(opt)
        # A few hundred runs at every level: 50 runs would take only half a second.
        each = opt.n or max(1, {1: 100, 10: 30}.get(sessions, 400 // sessions))
        clients = [await Gateway(opt).connect() for _ in range(sessions if opt.own_connection else len(opt.urls))]
        followers = [Runs(client, opt.method) for client in clients]
        key = session_key(opt, "load")

        async def session(number: int, key: str = key, each: int = each, followers: list[Runs] = followers) -> list[Run]:
            runs = followers[number % len(followers)]
            return [await runs.run(f"{key}-{number}", f"tokens={TOKENS} delay_ms=0", opt.timeout) for _ in range(each)]

        with Meter(opt) as meter:
            by_session = await asyncio.gather(*(session(number) for number in range(sessions)))
        done = [run for runs in by_session for run in runs]
        stats = overhead_of(done, await model_log_by_tag(opt))
        whole = sum(has_whole_text(run, TOKENS) for run in done)
        out[f"sessions_{sessions}"] = {
            "runs": len(done),
            "errors": stats["errors"],
            "error_examples": stats["error_examples"],
            "runs_without_whole_text": len(done) - whole,
            "seq_gaps": sum(client.seq_gaps for client in clients),
            "runs_per_s": round(stats["ok"] / meter.seconds, 2),
            "tokens_per_s": round(stats["ok"] * TOKENS / meter.seconds),
            "total_ms": stats["total_ms"],
            "ack_ms": stats["ack_ms"],
            "req_to_llm_ms": stats["req_to_llm_ms"],
            "end_lag_ms": stats["end_lag_ms"],
            "frames": sum(client.frames for client in clients),
            "mbytes": round(sum(client.bytes for client in clients) / 1e6, 1),
            **meter.result,
        }
        for client in clients:
            await client.close()
    return out


async def fanout(opt: Options) -> Result:
    """One run watched by N connections. Lag and loss are read from the timestamps in its text."""
    out: Result = {}
    tokens = opt.n or 500
    for clients in opt.levels or [1, 10, 100, 300]:
        key = session_key(opt, "fan")
        owner = await Gateway(opt).connect()
        runs = Runs(owner, opt.method)
        await runs.run(key, "tokens=5")  # creates the session, so that watchers can subscribe to it
        await clear_model_log(opt)
        watchers = WatcherProcess(opt, clients, key)
        await watchers.start()
        try:
            with Meter(opt) as meter:
                run = await runs.run(key, f"tokens={tokens} stamp delay_ms={opt.delay_ms:g}")
            report = await watchers.report(run["id"], tokens)
        finally:
            await watchers.close()
        log = await model_log_by_tag(opt)
        stream_s = max(0.001, run.get("final", time.time()) - log[run["tag"]]["first"])
        out[f"clients_{clients}"] = {
            "state": run.get("state"),
            **report,
            "clients_without_final": clients - report["clients_with_final"],
            "events_lost": report["agent"]["clients_missing_text"] + report["run_seq_gaps"] + clients - report["clients_with_end"],
            "delivered_events_per_s": round(report["agent"]["events_per_client"] * clients / stream_s, 1),
            "frames_per_s": round(report["frames"] / stream_s, 1),
            "stream_s": round(stream_s, 2),
            **meter.result,
        }
        await owner.close()
    return out
