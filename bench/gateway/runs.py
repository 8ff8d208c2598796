"""Start runs on one connection and measure the time that the gateway adds to the model's.

All times are time.time() of one machine:
  req_to_llm   request frame sent       -> model request received by the fake model
  delta_lag    first model delta sent   -> first text delta at the client
  later_delta  any later model delta    -> its text at the client (from the stamps in the text)
  end_lag      last model delta sent    -> lifecycle end (or chat final) at the client
"""

import asyncio
import time
import uuid
from collections.abc import Sequence
from typing import Any

import aiohttp

from bench.gateway.client import Frame, Gateway
from bench.gateway.figures import Result, milliseconds
from bench.gateway.options import Options

Run = dict[str, Any]
Record = dict[str, Any]


def delta_text(frame: Frame) -> tuple[str, str] | None:
    """Return the kind of event and the new text of a text delta, or None."""
    payload = frame.get("payload") or {}
    if frame["event"] == "agent" and payload.get("stream") == "assistant":
        return "agent", (payload.get("data") or {}).get("delta") or ""
    if frame["event"] == "chat" and payload.get("state") == "delta":
        return "chat", payload.get("deltaText") or ""
    return None


class StampReader:
    """Reads the send times from a text of timestamps that arrives in pieces."""

    def __init__(self) -> None:
        self._rest = ""

    def feed(self, text: str) -> list[float]:
        *stamps, self._rest = (self._rest + text).split(" ")
        return [float(stamp) for stamp in stamps if len(stamp) == 17]


class Runs:
    """Starts runs on one connection and records when each event arrives."""

    def __init__(self, gateway: Gateway, method: str = "chat.send") -> None:
        self.gateway, self.method = gateway, method
        self.by_id: dict[str, Run] = {}
        gateway.listeners.append(self._on_event)

    async def run(self, session: str, markers: str, timeout: float = 300) -> Run:
        """Start a run and wait for its end. A failure is stored in `state` instead of raised, so that suites can count errors."""
        tag = uuid.uuid4().hex[:12]
        run: Run = {"tag": tag, "id": str(uuid.uuid4()), "lags": [], "stamps": StampReader()}
        run["done"] = asyncio.get_running_loop().create_future()
        self.by_id[run["id"]] = run  # both methods use the idempotency key as the run id
        params = {"sessionKey": session, "message": f"bench [[{markers} tag={tag}]]", "idempotencyKey": run["id"]}
        run["sent"] = time.time()
        try:
            response = await self.gateway.request(self.method, params, timeout=timeout)
            run["ack"] = time.time()
            if response.get("runId") != run["id"]:
                self.by_id[response["runId"]] = run
            await asyncio.wait_for(run["done"], timeout)
        except Exception as error:
            run["state"] = f"exception {type(error).__name__}: {error}"[:200]
        return run

    def _on_event(self, frame: Frame, now: float) -> None:
        payload = frame.get("payload")
        run = self.by_id.get(payload.get("runId", "")) if isinstance(payload, dict) else None
        if run is None or payload is None:
            return
        if delta := delta_text(frame):
            self._on_delta(run, payload, *delta, now)
        elif frame["event"] == "agent" and payload.get("stream") == "lifecycle":
            if payload["data"].get("phase") in ("end", "error"):
                run["lifecycle_end"] = now
        elif frame["event"] == "chat" and payload.get("state") in ("final", "error", "aborted"):
            run["final"], run["state"], run["payload"] = now, payload["state"], payload
            if not run["done"].done():
                run["done"].set_result(None)

    def _on_delta(self, run: Run, payload: Frame, kind: str, text: str, now: float) -> None:
        data = payload.get("data") or {}
        if payload.get("replace") or data.get("replace") or data.get("reset"):  # the model request was retried
            run[f"{kind}_text"] = ""
        if not text:
            return  # such as the stored message at the end of an answer
        run.setdefault("first_delta", now)
        run[f"{kind}_deltas"] = run.get(f"{kind}_deltas", 0) + 1
        run[f"{kind}_text"] = run.get(f"{kind}_text", "") + text
        if kind == "agent":
            run["lags"] += [now - stamp for stamp in run["stamps"].feed(text)]


def final_text(run: Run) -> str:
    message = (run.get("payload") or {}).get("message") or {}
    return "".join(block.get("text", "") for block in message.get("content") or [] if isinstance(block, dict))


def has_whole_text(run: Run, tokens: int) -> bool:
    return run.get("state") == "final" and final_text(run).split() == [f"w{i}" for i in range(tokens)]


async def model_log(opt: Options, tag: str | None = None) -> list[Record]:
    params = {"tag": tag} if tag else {}
    async with aiohttp.ClientSession() as http, http.get(opt.llm + "/_log", params=params) as response:
        records: list[Record] = await response.json()
        return records


async def model_log_by_tag(opt: Options) -> dict[str, Record]:
    return {record["tag"]: record for record in await model_log(opt) if record["tag"]}


async def clear_model_log(opt: Options) -> None:
    async with aiohttp.ClientSession() as http:
        await http.post(opt.llm + "/_reset")


def overhead_of(runs: Sequence[Run], log: dict[str, Record]) -> Result:
    ok = [run for run in runs if run.get("state") == "final" and "first" in log.get(run["tag"], {})]
    pairs = [(run, log[run["tag"]]) for run in ok]
    failed = [run for run in runs if run not in ok]
    return {
        "ok": len(ok),
        "errors": len(failed),
        "error_examples": sorted(
            {f"{run.get('state')} {(run.get('payload') or {}).get('errorMessage', '')}"[:160] for run in failed}
        )[:3],
        "ack_ms": milliseconds(run["ack"] - run["sent"] for run in ok),
        "req_to_llm_ms": milliseconds(model["received"] - run["sent"] for run, model in pairs),
        "delta_lag_ms": milliseconds(run["first_delta"] - model["first"] for run, model in pairs if "first_delta" in run),
        "later_delta_lag_ms": milliseconds(lag for run in ok for lag in run["lags"][1:]),
        "end_lag_ms": milliseconds(run.get("lifecycle_end", run["final"]) - model["last"] for run, model in pairs),
        "final_lag_ms": milliseconds(run["final"] - model["last"] for run, model in pairs),
        "total_ms": milliseconds(run["final"] - run["sent"] for run in ok),
        "model_ms": milliseconds(model["end"] - model["received"] for _, model in pairs if "end" in model),
    }
