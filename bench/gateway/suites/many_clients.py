"""Suites with many clients: idle sockets, and clients that are all disconnected at the same time and reconnect."""

import asyncio
import contextlib
from dataclasses import asdict, replace

import psutil

from bench.gateway.client import Gateway, session_key
from bench.gateway.figures import Result
from bench.gateway.options import Options
from bench.gateway.processes import Meter, tree
from bench.gateway.runs import Runs
from bench.gateway.watchers import WatcherProcess
from bench.helper_process import HelperProcess

SOCKETS = 1_000
SETTLE_SECONDS = 5.0
TOKENS, DELAY_MS = 120, 100  # a stream of 12 s: long enough to disconnect and reconnect during it


async def idle(opt: Options) -> Result:
    """Measure the memory of one open socket: (PSS with N − PSS with none) / N, over all gateway processes."""
    count = opt.n or SOCKETS
    pages = replace(opt, client_mode="webchat")  # counted in presence, unlike programs
    warm_up = WatcherProcess(pages, 20, "")  # so that what the first connections load is not counted
    await warm_up.start()
    await warm_up.close()
    await asyncio.sleep(SETTLE_SECONDS)
    before = _pss(opt)
    sockets = WatcherProcess(pages, count, "")
    try:
        await sockets.start()
        await asyncio.sleep(SETTLE_SECONDS)
        after = _pss(opt)
    finally:
        await sockets.close()
    return {
        "sockets": count,
        "pss_none_mb": round(before / 2**20, 1),
        "pss_many_mb": round(after / 2**20, 1),
        "kb_per_socket": round((after - before) / count / 1024, 1),
    }


async def storm(opt: Options) -> Result:
    """Disconnect many clients in the middle of a stream; they reconnect, and one other client must not be affected."""
    count = opt.n or SOCKETS
    key = session_key(opt, "storm")
    owner = await Gateway(opt).connect()
    runs = Runs(owner, opt.method)
    await runs.run(key, "tokens=5")  # creates the session
    calm = await _watch_run(opt, owner, runs, key)
    clients = HelperProcess("bench.gateway.storm_clients")
    await clients.start()
    opt.helper_pids.append(clients.pid)
    try:
        first = await _cursor(owner, key)
        followed = replace(opt, launcher=None, caps=["tool-events", "session-scoped-events"])
        await clients.request(options=asdict(followed), count=count, session=key)
        with Meter(opt) as meter:
            watched, reconnected = await asyncio.gather(_watch_run(opt, owner, runs, key), _disconnect_in_the_middle(clients))
        end = await clients.request(first=first + 1, cursor=await _cursor(owner, key))
    finally:
        opt.helper_pids.remove(clients.pid)
        await clients.close()
    await owner.close()
    return {
        "clients": count,
        "back_ms": reconnected["back"],
        "dials": reconnected["tries"],
        **end,
        "calm": calm,
        "storm": watched,
        **meter.result,
    }


async def _disconnect_in_the_middle(clients: HelperProcess) -> Result:
    await asyncio.sleep(TOKENS * DELAY_MS / 1000 / 3)
    return await clients.request(cut=True, timeout=180)


async def _watch_run(opt: Options, owner: Gateway, runs: Runs, key: str) -> Result:
    """Measure one run with a single other client."""
    watcher = WatcherProcess(opt, 1, key)
    await watcher.start()
    try:
        run = await runs.run(key, f"tokens={TOKENS} stamp delay_ms={DELAY_MS}")
        report = await watcher.report(run["id"], TOKENS)
    finally:
        await watcher.close()
    return {
        "state": run.get("state"),
        "token_lag_ms": report["agent"]["token_lag_ms"],
        "events_lost": report["agent"]["clients_missing_text"] + report["run_seq_gaps"] + 1 - report["clients_with_end"],
        "seq_gaps": report["seq_gaps"],
    }


async def _cursor(gateway: Gateway, key: str) -> int:
    page = await gateway.request("chat.history", {"sessionKey": key, "limit": 1})
    return int(page["cursor"])


def _pss(opt: Options) -> int:
    total = 0
    for process in tree(opt.pids):
        with contextlib.suppress(psutil.Error, OSError):
            total += process.memory_full_info().pss
    return total
