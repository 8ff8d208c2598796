"""Many sockets that do nothing, and many that are lost at once and come back."""

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
TOKENS, DELAY_MS = 120, 100  # a stream of 12 s: long enough to be cut off in, and to come back to


async def idle(opt: Options) -> Result:
    """Memory of one open socket: (PSS with N − PSS with none) / N, over all processes of the gateway."""
    count = opt.n or SOCKETS
    pages = replace(opt, client_mode="webchat")  # which are listed as present; programs are not
    warm = WatcherProcess(pages, 20, "")  # what the first ones load is no part of the thousandth
    await warm.start()
    await warm.close()
    await asyncio.sleep(SETTLE_SECONDS)
    none = _pss(opt)
    crowd = WatcherProcess(pages, count, "")
    try:
        await crowd.start()
        await asyncio.sleep(SETTLE_SECONDS)
        many = _pss(opt)
    finally:
        await crowd.close()
    return {
        "sockets": count,
        "pss_none_mb": round(none / 2**20, 1),
        "pss_many_mb": round(many / 2**20, 1),
        "kb_per_socket": round((many - none) / count / 1024, 1),
    }


async def storm(opt: Options) -> Result:
    """A stream is watched by many and by one. The many are cut off in the middle and come back; the one must not notice."""
    count = opt.n or SOCKETS
    key = session_key(opt, "storm")
    owner = await Gateway(opt).connect()
    runs = Runs(owner, opt.method)
    await runs.run(key, "tokens=5")  # the session exists
    calm = await _watched(opt, owner, runs, key)
    members = HelperProcess("bench.gateway.storm_clients")
    await members.start()
    opt.helper_pids.append(members.pid)
    try:
        first = await _cursor(owner, key)
        followed = replace(opt, launcher=None, caps=["tool-events", "session-scoped-events"])
        await members.request(options=asdict(followed), count=count, session=key)
        with Meter(opt) as meter:
            watched, back = await asyncio.gather(_watched(opt, owner, runs, key), _cut_in_the_middle(members))
        end = await members.request(first=first + 1, cursor=await _cursor(owner, key))
    finally:
        opt.helper_pids.remove(members.pid)
        await members.close()
    await owner.close()
    return {
        "clients": count,
        "back_ms": back["back"],
        "dials": back["tries"],
        **end,
        "calm": calm,
        "storm": watched,
        **meter.result,
    }


async def _cut_in_the_middle(members: HelperProcess) -> Result:
    await asyncio.sleep(TOKENS * DELAY_MS / 1000 / 3)
    return await members.request(cut=True, timeout=180)


async def _watched(opt: Options, owner: Gateway, runs: Runs, key: str) -> Result:
    """One run as its single other watcher sees it."""
    watcher = WatcherProcess(opt, 1, key)
    await watcher.start()
    try:
        run = await runs.run(key, f"tokens={TOKENS} stamp delay_ms={DELAY_MS}")
        told = await watcher.report(run["id"], TOKENS)
    finally:
        await watcher.close()
    return {
        "state": run.get("state"),
        "token_lag_ms": told["agent"]["token_lag_ms"],
        "events_lost": told["agent"]["clients_missing_text"] + told["run_seq_gaps"] + 1 - told["clients_with_end"],
        "seq_gaps": told["seq_gaps"],
    }


async def _cursor(gateway: Gateway, key: str) -> int:
    page = await gateway.request("chat.history", {"sessionKey": key, "limit": 1})
    return int(page["cursor"])


def _pss(opt: Options) -> int:
    found = 0
    for process in tree(opt.pids):
        with contextlib.suppress(psutil.Error, OSError):
            found += process.memory_full_info().pss
    return found
