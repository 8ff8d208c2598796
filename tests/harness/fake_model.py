#!/usr/bin/env python3
"""Fake OpenAI-compatible model server for tests and benchmarks.

    python -m tests.harness.fake_model [--host 127.0.0.1] [--port 18080]   (needs aiohttp; uses uvloop if installed)
    async with fake_model.serve() as model:   (in the same event loop; model.base_url, model.record(...))

Endpoints: GET /v1/models, POST /v1/chat/completions, POST /v1/responses (both streaming and not),
GET /_log?tag=X (or all), POST /_reset.

Markers `[[key=value key=value ...]]` in the last user message choose the response:

    [[tokens=200 delay_ms=0]]      stream 200 small deltas, this many ms apart
    [[tokens=200 stamp]]           each delta is its own send time ("1794790260.123456 "): a receiver can
                                   compute lag and loss from the text alone
    [[text="hello there"]]         stream this text, one word per delta
    [[tool=exec args={"a":1}]]     call this tool; once its result arrives, answer with text.
                                   Several [[tool=..]] markers: one call after the other;
                                   [[tool=.. parallel=1]] joins the previous call's turn. args="{broken" is sent unchanged;
                                   call_id=X sets the call's ID. The arguments are streamed in two parts.
    [[error=429]] [[error=500]]    HTTP error (retry_after=SECONDS adds the header; code=C message="M" set the error)
    [[context_overflow]]           HTTP 400 code context_length_exceeded
    [[context_limit=5000]]         the same if the messages, without instructions, have more characters than this
    [[refuse=stream_options]]      HTTP 422 if the request has this field
    [[hang]]                       accept, never respond (until the client disconnects)
    [[hang_after=5]]               the same after 5 deltas;  [[cut_after=5]] drops the socket there,
                                   [[end_after=5]] ends the stream there as if it were complete, without finish reason or [DONE],
                                   [[fault_after=5 code=C message="M"]] sends an error object there and ends
    [[slow_first=2]]               seconds before the first byte
    [[reasoning=20]]               20 reasoning deltas first (reasoning_content)
    [[finish=length]]              finish reason of the final chunk
    [[empty]]                      a complete answer without any content
    [[cached=7]]                   report this many cached prompt tokens in the usage
    [[whole]]                      respond with one JSON body although a stream was requested
    [[times=1]]                    errors, hangs and cuts apply to the first N requests only,
                                   counted per tag (or per user text when there is no tag)
    [[summary_text="we agreed"]]   for the summary request of a conversation with this marker: only markers that start with
                                   summary_ apply (summary_hang, summary_context_limit, …); without one the summary is
                                   "a summary of N characters"
    [[after_summary="all done"]]   if the conversation starts with a summary, stream only this text
    [[tag=run-7]]                  label in the log, so that a test can find its request

Without a marker: "ok" as a single delta. Each request leaves a log record with wall-clock times
(time.time(), same clock as any client on this machine): received, first, last, end, and the request.
`client_left` is set if the client closed the connection before the response was complete.
"""

import argparse
import asyncio
import collections
import itertools
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Json = dict[str, Any]

LOG: collections.deque[Json] = collections.deque(maxlen=200_000)
BODIES: collections.deque[Json] = collections.deque(maxlen=50)  # the last request bodies, for tests in the same process
SEEN: collections.Counter[str] = collections.Counter()
NUMBER = itertools.count(1)
DECODER = json.JSONDecoder()
STAMP = "\0stamp"
SUMMARY_INSTRUCTIONS = "You summarize the earlier part of a conversation"  # start of the instructions for a summary
SUMMARY_MARKER = "[The earlier part of this conversation was summarized"
FAULTS = (
    "error",
    "context_overflow",
    "context_limit",
    "hang",
    "hang_after",
    "cut_after",
    "end_after",
    "fault_after",
    "slow_first",
    "empty",
)
CODES = {429: "rate_limit_exceeded", 401: "invalid_api_key", 503: "overloaded"}


# ---------------------------------------------------------------- markers
def parse_markers(text: str) -> tuple[Json, list[Json]]:
    """Return options and tool calls as {tool, args, parallel?, call_id?}."""
    options: Json = {}
    tools: list[Json] = []
    pos = 0
    while (start := text.find("[[", pos)) >= 0:
        pos = start + 2
        pairs: Json = {}
        while m := re.compile(r"\s*(\w+)(=)?").match(text, pos):
            key, pos = m.group(1), m.end()
            if not m.group(2):
                pairs[key] = "1"
            elif text[pos : pos + 1] in ("{", "[", '"'):
                try:
                    pairs[key], pos = DECODER.raw_decode(text, pos)
                except ValueError:
                    break
            else:
                end = re.compile(r"[^\s\]]*").match(text, pos)
                pairs[key], pos = (end.group(0), end.end()) if end else ("", pos)
        if "tool" in pairs:
            args: Any = pairs.get("args", {})
            tools.append({**pairs, "args": args if isinstance(args, str) else json.dumps(args)})
        else:
            options.update(pairs)
    return options, tools


def flatten(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(p.get("text", "") for p in content or [] if isinstance(p, dict))


def read_conversation(body: Json) -> tuple[str, int]:
    """Return the text of the user message that controls this request and the number of tool results after it, for both APIs.

    That message is the last one with a marker since the assistant's last complete answer (a client may append
    context as further user messages), otherwise the last one.
    """
    items = body.get("messages") or body.get("input") or []
    if isinstance(items, str):
        return items, 0
    text, results = "", 0
    for item in items:
        role, kind = item.get("role"), item.get("type")
        if role == "user":
            content = flatten(item.get("content"))
            if "[[" in content or "[[" not in text:
                text, results = content, 0
        elif role == "assistant" and not item.get("tool_calls"):
            text = text.replace("[[", "[")  # answered: its markers no longer apply
        elif role == "tool" or kind == "function_call_output":
            results += 1
    return text, results


def plan(text: str, results: int) -> tuple[Json, int, list[str], list[Json]]:
    """Return options, number of reasoning deltas, text deltas, and tool calls of this turn."""
    options, tools = parse_markers(text)
    groups: list[list[Json]] = []
    for call in tools:
        if "parallel" in call and groups:
            groups[-1].append(call)
        else:
            groups.append([call])
    done = 0
    for group in groups:
        if results < done + len(group):
            return options, 0, [], group
        done += len(group)
    if "text" in options:
        deltas = re.findall(r"\s*\S+", str(options["text"])) or [""]
    elif "tokens" in options:
        deltas = [STAMP if "stamp" in options else f"w{i} " for i in range(int(options["tokens"]))]
    else:
        deltas = ["done after tools"] if groups else ["ok"]
    return options, int(options.get("reasoning", 0)), deltas, []


def plan_summary(text: str, length: int) -> tuple[Json, int, list[str], list[Json]]:
    """Like `plan` for a summary request, which must ignore the markers of the messages it quotes."""
    options = {
        name.removeprefix("summary_"): value for name, value in parse_markers(text)[0].items() if name.startswith("summary_")
    }
    return options, 0, re.findall(r"\s*\S+", str(options.get("text", f"a summary of {length} characters"))), []


def length_of(items: Any) -> int:
    return sum(len(json.dumps(item)) for item in items if isinstance(item, str) or item.get("role") != "system")


# ---------------------------------------------------------------- server
class Fault(Exception):
    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        self.response = web.json_response(
            {"error": {"message": message, "type": code, "code": code}}, status=status, headers=headers
        )


_watchers: set[asyncio.Future[None]] = set()


def stamp(record: Json, **fields: Any) -> None:
    """Update a record and wake tests that wait for it."""
    record.update(fields)
    for watcher in list(_watchers):
        if not watcher.done():
            watcher.set_result(None)


async def admit(request: web.Request, body: Json, api: str) -> tuple[Json, Json, int, list[str], list[Json]]:
    """Parse, log, and apply faults before the first byte."""
    record: Json = {
        "n": next(NUMBER),
        "received": time.time(),
        "traceparent": request.headers.get("traceparent"),
        "api": api,
        "model": body.get("model"),
        "stream": bool(body.get("stream")),
    }
    text, results = read_conversation(body)
    messages = body.get("messages") or body.get("input") or []
    items, length = len(messages), length_of(messages)
    first = messages[0] if messages and isinstance(messages, list) else {}
    is_summary = flatten(first.get("content")).startswith(SUMMARY_INSTRUCTIONS)
    options, reasoning, deltas, calls = plan_summary(text, length) if is_summary else plan(text, results)
    if "after_summary" in options and SUMMARY_MARKER in json.dumps(messages[:2]):
        deltas, calls = [str(options["after_summary"])], []
    LOG.append(record)
    BODIES.append(body)
    offered = len(body.get("tools") or [])
    stamp(record, tag=options.get("tag"), tool_results=results, tools_offered=offered, items=items, user=text[-300:])
    stamp(record, is_summary=is_summary, length=length)
    key = str(options.get("tag") or re.sub(r"</?conversation \w+>", "", text))  # the tag differs in every request
    SEEN[key] += 1
    if SEEN[key] > int(options.get("times", 1 << 30)):
        for name in FAULTS:
            options.pop(name, None)
    if "slow_first" in options:
        await asyncio.sleep(float(options["slow_first"]))
    if "hang" in options:
        await hang(record)
    if "error" in options:
        status = int(options["error"])
        stamp(record, end=time.time())
        headers = {"Retry-After": str(options["retry_after"])} if "retry_after" in options else None
        code = options.get("code") or CODES.get(status, "server_error")
        raise Fault(status, code, options.get("message") or f"fake error {status}", headers)
    if "context_overflow" in options or length > int(options.get("context_limit", length)):
        stamp(record, end=time.time())
        message = "This model's maximum context length is 128000 tokens. However, your messages resulted in 200000 tokens."
        raise Fault(400, "context_length_exceeded", message + " Please reduce the length of the messages.")
    if (refused := options.get("refuse")) and refused in body:
        stamp(record, end=time.time())
        raise Fault(422, "extra_forbidden", f"{refused}: Extra inputs are not permitted")
    if "empty" in options:
        deltas = []
    return record, options, reasoning, deltas, calls


async def hang(record: Json) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        stamp(record, end=time.time(), client_left=True)


class Stream:
    """SSE response which stamps the log record and applies mid-stream faults."""

    def __init__(self, request: web.Request, record: Json, options: Json) -> None:
        self.request, self.record, self.options, self.sent = request, record, options, 0
        self.delay = float(options.get("delay_ms", 0)) / 1000
        self.faults = {int(options[name]): name for name in FAULTS if name.endswith("_after") and name in options}
        self.response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})

    async def open(self) -> None:
        await self.response.prepare(self.request)

    async def event(self, data: str, name: str | None = None) -> None:
        await self.response.write((f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode())

    async def delta(self, data: str | tuple[str, str, str], name: str | None = None) -> None:
        await self.fault()
        if self.delay and self.sent:
            await asyncio.sleep(self.delay)
        now = time.time()
        self.record.setdefault("first", now)
        self.record["last"] = now
        self.sent += 1
        if isinstance(data, tuple):  # (json before the text, text, json after it)
            text = f"{now:.6f} " if data[1] is STAMP else data[1]
            data = data[0] + json.dumps(text) + data[2]
        await self.event(data, name)

    async def fault(self) -> None:
        """The fault that is due after as many deltas as have been sent, if any."""
        name = self.faults.get(self.sent)
        if name is None:
            return
        stamp(self.record, end=time.time())
        if name == "hang_after":
            await hang(self.record)
        if name == "cut_after" and self.request.transport is not None:
            self.request.transport.abort()
        if name == "fault_after":
            error = {"message": self.options.get("message", "fake fault"), "code": self.options.get("code", "server_error")}
            await self.event(json.dumps({"error": error}))
        raise EndOfStream

    async def close(self) -> web.StreamResponse:
        await self.fault()
        await self.response.write(b"data: [DONE]\n\n")
        stamp(self.record, end=time.time())
        await self.response.write_eof()
        return self.response


class EndOfStream(Exception):
    """The stream ends here on purpose."""


def usage_of(body: Json, deltas: list[str], options: Json) -> Json:
    prompt = len(json.dumps(body)) // 4
    usage: Json = {"prompt_tokens": prompt, "completion_tokens": len(deltas), "total_tokens": prompt + len(deltas)}
    if "cached" in options:
        usage["prompt_tokens_details"] = {"cached_tokens": int(options["cached"])}
    return usage


async def chat_completions(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    try:
        record, options, reasoning, deltas, calls = await admit(request, body, "chat")
    except Fault as fault:
        return fault.response
    base = {"id": f"chatcmpl-{record['n']}", "created": int(record["received"]), "model": body.get("model", "fake")}
    finish = options.get("finish") or ("tool_calls" if calls else "stop")
    usage = usage_of(body, deltas, options)
    tool_calls = [
        {
            "index": i,
            "id": call.get("call_id", f"call_{record['n']}_{i}"),
            "type": "function",
            "function": {"name": call["tool"], "arguments": call["args"]},
        }
        for i, call in enumerate(calls)
    ]
    if not body.get("stream") or "whole" in options:
        message: Json = {"role": "assistant", "content": "".join(deltas).replace(STAMP, f"{time.time():.6f} ") or None}
        if tool_calls:
            message["tool_calls"] = tool_calls
        record["first"] = record["last"] = record["end"] = time.time()
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return web.json_response({**base, "object": "chat.completion", "usage": usage, "choices": [choice]})

    def chunk(delta: Json, finish_reason: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return json.dumps({**base, "object": "chat.completion.chunk", "choices": [choice]})

    stream = Stream(request, record, options)
    try:
        await stream.open()
        await stream.event(chunk({"role": "assistant", "content": ""}))
        for i in range(reasoning):
            await stream.delta(chunk({"reasoning_content": f"r{i} "}))
        head, tail = chunk({"content": "\0"}).split('"\\u0000"')  # template: no json.dumps of the envelope per delta
        for text in deltas:
            await stream.delta((head, text, tail))
        for call in tool_calls:
            arguments = call["function"]["arguments"]
            half = len(arguments) // 2
            await stream.delta(chunk({"tool_calls": [{**call, "function": {**call["function"], "arguments": arguments[:half]}}]}))
            await stream.event(chunk({"tool_calls": [{"index": call["index"], "function": {"arguments": arguments[half:]}}]}))
        await stream.fault()
        await stream.event(chunk({}, finish))
        if (body.get("stream_options") or {}).get("include_usage"):
            await stream.event(json.dumps({**base, "object": "chat.completion.chunk", "choices": [], "usage": usage}))
        return await stream.close()
    except EndOfStream:
        return stream.response
    except (asyncio.CancelledError, ConnectionError):
        stamp(record, end=time.time(), client_left=True)
        raise


async def responses(request: web.Request) -> web.StreamResponse:
    body = await request.json()
    try:
        record, options, _reasoning, deltas, calls = await admit(request, body, "responses")
    except Fault as fault:
        return fault.response
    n = record["n"]
    counts = usage_of(body, deltas, options)
    output: list[Json] = [
        {
            "type": "function_call",
            "id": f"fc_{n}_{i}",
            "call_id": call.get("call_id", f"call_{n}_{i}"),
            "name": call["tool"],
            "arguments": call["args"],
            "status": "completed",
        }
        for i, call in enumerate(calls)
    ]
    if deltas:
        content = [{"type": "output_text", "text": "".join(deltas), "annotations": []}]
        output = [{"type": "message", "id": f"msg_{n}", "role": "assistant", "status": "completed", "content": content}]
    final: Json = {
        "id": f"resp_{n}",
        "object": "response",
        "created_at": int(record["received"]),
        "status": "completed",
        "model": body.get("model", "fake"),
        "output": output,
        "usage": {
            "input_tokens": counts["prompt_tokens"],
            "output_tokens": counts["completion_tokens"],
            "total_tokens": counts["total_tokens"],
            "input_tokens_details": counts.get("prompt_tokens_details", {"cached_tokens": 0}),
        },
    }
    if not body.get("stream"):
        record["first"] = record["last"] = record["end"] = time.time()
        return web.json_response(final)
    stream = Stream(request, record, options)
    numbers = itertools.count()

    async def send(kind: str, **fields: Any) -> None:
        data = json.dumps({"type": kind, "sequence_number": next(numbers), **fields})
        await (stream.delta if "delta" in fields else stream.event)(data, kind)

    try:
        await stream.open()
        await send("response.created", response={**final, "status": "in_progress", "output": []})
        for index, item in enumerate(output):
            where = {"output_index": index, "item_id": item["id"]}
            if item["type"] == "message":
                part = item["content"][0]
                await send("response.output_item.added", output_index=index, item={**item, "content": [], "status": "in_progress"})
                await send("response.content_part.added", **where, content_index=0, part={**part, "text": ""})
                for text in deltas:
                    await send("response.output_text.delta", **where, content_index=0, delta=text)
                await send("response.output_text.done", **where, content_index=0, text=part["text"])
                await send("response.content_part.done", **where, content_index=0, part=part)
            else:
                await send(
                    "response.output_item.added", output_index=index, item={**item, "arguments": "", "status": "in_progress"}
                )
                await send("response.function_call_arguments.delta", **where, delta=item["arguments"])
                await send("response.function_call_arguments.done", **where, arguments=item["arguments"])
            await send("response.output_item.done", output_index=index, item=item)
        await send("response.completed", response=final)
        return await stream.close()
    except EndOfStream:
        return stream.response
    except (asyncio.CancelledError, ConnectionError):
        stamp(record, end=time.time(), client_left=True)
        raise


async def models(request: web.Request) -> web.Response:
    names = ("fake-1", "fake-2")
    return web.json_response(
        {"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "fake"} for name in names]}
    )


async def get_log(request: web.Request) -> web.Response:
    tag = request.query.get("tag")
    return web.json_response([r for r in LOG if tag is None or r["tag"] == tag])


async def reset(request: web.Request) -> web.Response:
    forget()
    return web.json_response({})


def forget() -> None:
    LOG.clear()
    BODIES.clear()
    SEEN.clear()


def build_app() -> web.Application:
    app = web.Application(client_max_size=64 << 20)
    app.add_routes(
        [
            web.post("/v1/chat/completions", chat_completions),
            web.post("/v1/responses", responses),
            web.get("/v1/models", models),
            web.get("/_log", get_log),
            web.post("/_reset", reset),
        ]
    )
    return app


class FakeModel:
    """The running server, for a test in the same event loop."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.base_url = f"http://127.0.0.1:{port}/v1"

    @property
    def log(self) -> list[Json]:
        return list(LOG)

    @property
    def bodies(self) -> list[Json]:
        return list(BODIES)

    async def record(self, matches: Callable[[Json], Any], *, seconds: float = 10) -> Json:
        """Wait for the first log record that matches."""
        async with asyncio.timeout(seconds):
            while True:
                for record in LOG:
                    if matches(record):
                        return record
                watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                _watchers.add(watcher)
                try:
                    await watcher
                finally:
                    _watchers.discard(watcher)


@asynccontextmanager
async def serve() -> AsyncIterator[FakeModel]:
    """Run the server on a free port with an empty log."""
    forget()
    runner = web.AppRunner(build_app(), access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield FakeModel(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=18080)
    args = parser.parse_args()
    try:
        import uvloop

        uvloop.install()
    except ImportError:
        pass
    web.run_app(
        build_app(), host=args.host, port=args.port, access_log=None, print=None, handler_cancellation=True, shutdown_timeout=1
    )


if __name__ == "__main__":
    main()
