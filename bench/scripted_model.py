"""A fake model with an OpenAI-compatible API that returns a scripted reply for each prompt.

Unlike tests/harness/fake_model.py, it needs no markers in the prompt, which would be visible in screenshots. In a module that is
started with --port:

    def reply_to(prompt: str) -> Reply: …
    main(reply_to)

An unknown prompt raises an error.
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
    steps: tuple[ScriptedAnswer, ...]  # one per model request
    pace: float  # seconds between two words


def reply(*steps: ScriptedAnswer, pace: float = 0.012) -> Reply:
    return Reply(steps, pace)


def read_prompt(body: Json) -> tuple[str, int]:
    """Return the last prompt and the number of answers since then."""
    text, answers = "", 0
    for message in body["messages"]:
        if message["role"] == "user":
            content = message["content"]
            text, answers = content if isinstance(content, str) else content[0]["text"], 0
        answers += message["role"] == "assistant"
    return text.strip(), answers


def chunks(step: ScriptedAnswer, number: int) -> Iterator[Json]:
    """Yield the deltas of an answer, word by word."""
    for thought in step.thinking:
        yield from ({"reasoning_content": word} for word in re.findall(r"\s*\S+\s*", thought))
    for text in step.texts:
        yield from ({"content": word} for word in re.findall(r"\s*\S+", text))
    for index, call in enumerate(step.tool_calls):
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        yield {"tool_calls": [{"index": index, "id": f"call_{number}_{index}", "type": "function", "function": function}]}


class ScriptedModel:
    def __init__(self, reply_to: Callable[[str], Reply]) -> None:
        self.reply_to = reply_to

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        prompt, answers = read_prompt(body)
        scripted = self.reply_to(prompt)
        step = scripted.steps[answers]
        if step.failure is not None:
            error = {"message": step.failure_details["message"], "type": step.failure, "code": step.failure}
            return web.json_response({"error": error}, status=step.failure_details["status"])
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": body["model"]}

        async def send(choices: list[Json], **more: Any) -> None:
            await response.write(f"data: {json.dumps({**head, 'choices': choices, **more})}\n\n".encode())

        loop = asyncio.get_running_loop()
        started, written = loop.time(), 0
        for delta in chunks(step, answers):
            await send([{"index": 0, "delta": delta, "finish_reason": None}])
            written += 1
            await asyncio.sleep(started + written * scripted.pace - loop.time())  # sleeping for `pace` would accumulate delays
        await send([{"index": 0, "delta": {}, "finish_reason": "tool_calls" if step.tool_calls else "stop"}])
        prompt_tokens = 900 + len(json.dumps(body)) // 4
        await send(
            [],
            usage={"prompt_tokens": prompt_tokens, "completion_tokens": written + 40, "total_tokens": prompt_tokens + written + 40},
        )
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response


def main(reply_to: Callable[[str], Reply]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", ScriptedModel(reply_to).complete)
    web.run_app(app, host="127.0.0.1", port=parser.parse_args().port, print=None)
