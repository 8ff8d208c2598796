"""Kill the gateway with SIGKILL and restart it: what happens to a running answer, and to a pending approval request."""

import asyncio
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from bench.gateway.client import Frame, Gateway, Rejected, connect_when_up, session_key
from bench.gateway.figures import Result
from bench.gateway.options import Launcher, Options
from bench.gateway.runs import Runs, model_log

BACKGROUND = ("tick", "health", "presence")


def _launcher(opt: Options) -> Launcher:
    assert opt.launcher, "this suite restarts the gateway: pass its command with --start"
    return opt.launcher


def _text(value: Any, limit: int) -> str:
    return orjson.dumps(value).decode()[:limit]


async def watch_all(gateway: Gateway, seconds: float, keep: Callable[[Frame], bool]) -> list[list[Any]]:
    """Collect shortened events for some seconds."""
    rows: list[list[Any]] = []
    started = time.time()

    def on_event(frame: Frame, now: float) -> None:
        if frame["event"] not in BACKGROUND and keep(frame):
            rows.append([round(now - started, 2), frame["event"], _text(frame.get("payload"), 400)])

    gateway.listeners.append(on_event)
    await asyncio.sleep(seconds)
    gateway.listeners.remove(on_event)
    return rows


async def history_of(gateway: Gateway, key: str) -> tuple[Frame, list[tuple[str, str]]]:
    history = await gateway.request("chat.history", {"sessionKey": key, "limit": 50})
    return history, [(message.get("role"), _text(message.get("content"), 300)) for message in history.get("messages", [])]


async def crash(opt: Options) -> Result:
    """Kill the gateway during a run, restart it, reconnect, and report what happened to the run."""
    launcher = _launcher(opt)
    opt.pids = launcher.start()
    try:
        gateway = await connect_when_up(opt)
        runs, key = Runs(gateway, opt.method), session_key(opt, "crash")
        await runs.run(key, "tokens=5")
        task = asyncio.create_task(runs.run(key, "tokens=200 delay_ms=50", 60))
        await asyncio.sleep(0.2)
        run = list(runs.by_id.values())[-1]
        for _ in range(1000):
            if run.get("chat_deltas", 0) >= 5 or task.done():
                break
            await asyncio.sleep(0.05)
        before = await model_log(opt)
        launcher.stop(kill=True)
        killed = time.time()
        task.cancel()
        opt.pids = launcher.start()
        gateway = await connect_when_up(opt)
        downtime = time.time() - killed
        events = await watch_all(gateway, opt.watch, lambda frame: key in str(frame) or run["id"] in str(frame))
        history, messages = await history_of(gateway, key)
        after = [record for record in await model_log(opt) if record["received"] > killed]
        try:  # is the same idempotency key recognized, or run a second time?
            request = {"sessionKey": key, "message": f"bench [[tokens=5 tag={run['tag']}]]", "idempotencyKey": run["id"]}
            again = await gateway.request(opt.method, request)
        except Rejected as error:
            again = str(error)[:300]
        requests = [
            {name: record.get(name) for name in ("tag", "user", "items", "tool_results")}
            | {"after_s": round(record["received"] - killed, 2)}
            for record in after
        ]
        return {
            "deltas_before_kill": run.get("chat_deltas"),
            "back_after_s": round(downtime, 2),
            "llm_requests_after_restart": requests[:5],
            "same_tag_as_before": any(record["tag"] == run["tag"] for record in after),
            "model_requests_before": len(before),
            "events": events[:25],
            "inFlightRun": history.get("inFlightRun"),
            "history": messages,
            "same_idempotency_key_again": again,
        }
    finally:
        launcher.stop()


async def approval(opt: Options) -> Result:
    """Kill and restart the gateway while an exec approval is pending.

    The client must be interactive (--device --client-id openclaw-tui --client-mode ui
    --caps tool-events,approvals,exec-approvals), and exec must need approval.
    """
    launcher = _launcher(opt)
    marker = Path(f"/tmp/bench-approval-{uuid.uuid4().hex[:8]}")
    command = _text({"command": f"touch {marker}"}, 200)
    opt.pids = launcher.start()
    try:
        gateway = await connect_when_up(opt)
        requested: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()

        def on_event(frame: Frame, now: float) -> None:
            if frame["event"] == "exec.approval.requested" and not requested.done():
                requested.set_result(frame["payload"])

        gateway.listeners.append(on_event)
        key, sent = session_key(opt, "approval"), time.time()
        message = f"bench [[tool=exec args={command}]] [[tag={uuid.uuid4().hex[:8]}]]"
        await gateway.request(opt.method, {"sessionKey": key, "idempotencyKey": str(uuid.uuid4()), "message": message})
        approval_request = await asyncio.wait_for(requested, 60)
        waited = time.time() - sent
        pending = await gateway.request("exec.approval.list")
        launcher.stop(kill=True)
        opt.pids = launcher.start()
        gateway = await connect_when_up(opt)
        listed = await gateway.request("exec.approval.list")
        try:
            resolved = await gateway.request("exec.approval.resolve", {"id": approval_request["id"], "decision": "allow-once"})
        except Rejected as error:
            resolved = str(error)[:400]
        events = await watch_all(gateway, opt.watch, lambda frame: "approval" in frame["event"] or key in str(frame))
        _, messages = await history_of(gateway, key)
        return {
            "request_to_approval_event_s": round(waited, 2),
            "approval": _text(approval_request, 1500),
            "pending_before": _text(pending, 600),
            "listed_after_restart": _text(listed, 800),
            "resolve_after_restart": resolved,
            "command_ran": await asyncio.to_thread(marker.exists),
            "events": events[:20],
            "history": messages,
        }
    finally:
        launcher.stop()
