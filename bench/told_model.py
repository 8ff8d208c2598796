"""A model that answers each question as it was told, over OpenAI's wire: like tests/harness/fake_model.py, but
without visible markers in the question.

    def reply_to(question: str) -> Reply: …
    main(reply_to)        in a module that is then started with --port

A question that nobody thought of fails loudly.
"""

import argparse
import asyncio
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from agents.llm.providers.scripted import ScriptedAnswer

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    steps: tuple[ScriptedAnswer, ...]  # one for each time the model is asked
    pace: float  # seconds between two words


def reply(*steps: ScriptedAnswer, pace: float = 0.012) -> Reply:
    return Reply(steps, pace)


def asked_in(body: Json) -> tuple[str, int]:
    """-> (the last question, how many times the model has spoken since)."""
    text, spoken = "", 0
    for message in body["messages"]:
        if message["role"] == "user":
            content = message["content"]
            text, spoken = content if isinstance(content, str) else content[0]["text"], 0
        spoken += message["role"] == "assistant"
    return text.strip(), spoken


def chunks(step: ScriptedAnswer, number: int) -> Iterator[Json]:
    """What is streamed, a word at a time."""
    for thought in step.thinking:
        yield from ({"reasoning_content": word} for word in re.findall(r"\s*\S+\s*", thought))
    for text in step.texts:
        yield from ({"content": word} for word in re.findall(r"\s*\S+", text))
    for index, call in enumerate(step.tool_calls):
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        yield {"tool_calls": [{"index": index, "id": f"call_{number}_{index}", "type": "function", "function": function}]}


class Teller:
    def __init__(self, reply_to: Callable[[str], Reply]) -> None:
        self.reply_to = reply_to

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        text, spoken = asked_in(body)
        told = self.reply_to(text)
        step = told.steps[spoken]
        if step.failure is not None:
            error = {"message": step.failure_details["message"], "type": step.failure, "code": step.failure}
            return web.json_response({"error": error}, status=step.failure_details["status"])
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": body["model"]}

        async def send(choices: list[Json], **more: Any) -> None:
            await response.write(f"data: {json.dumps({**head, 'choices': choices, **more})}\n\n".encode())

        loop = asyncio.get_running_loop()
        began, written = loop.time(), 0
        for delta in chunks(step, spoken):
            await send([{"index": 0, "delta": delta, "finish_reason": None}])
            written += 1
            await asyncio.sleep(began + written * told.pace - loop.time())  # not `pace`: lateness would add up
        await send([{"index": 0, "delta": {}, "finish_reason": "tool_calls" if step.tool_calls else "stop"}])
        read = 900 + len(json.dumps(body)) // 4
        await send([], usage={"prompt_tokens": read, "completion_tokens": written + 40, "total_tokens": read + written + 40})
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


def main(reply_to: Callable[[str], Reply]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", Teller(reply_to).complete)
    web.run_app(app, host="127.0.0.1", port=parser.parse_args().port, print=None)
