"""The built-in demo model `demo/clawsite`: needs no key and no network, so that everything can be tried at once.

It streams what `demo_script` answers, word by word as a model would. It is a fixed script and says so.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence

from agents.llm import summary_prompt
from agents.llm.base import Finished, ModelRequest, StreamEvent, TextDelta, ThinkingDelta, Usage
from agents.llm.messages import AssistantMessage, ToolCallRequest, ToolResultMessage, UserMessage
from agents.llm.providers.demo.script import next_reply
from agents.llm.providers.demo.summary import summary_reply

CHUNK_PATTERN = re.compile(r"[一-鿿]{1,2}|[^\s一-鿿]+\s*|\s+")  # a word with its blank, or two Chinese characters
WORD_PATTERN = re.compile(r"[一-鿿]|[^\s一-鿿]+")
PAUSE_S = 0.015
MAX_CHUNKS = 120  # a long file is shown in larger pieces rather than for longer: 2 s at most


class DemoProvider:
    def __init__(self, pause: float = PAUSE_S) -> None:
        self._pause = pause

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        if request.system == summary_prompt.SUMMARY_SYSTEM_PROMPT:
            turn = summary_reply(request.messages)
        else:
            turn = next_reply(request.messages, [tool.name for tool in request.tools])
        for piece in _split_chunks(turn.thinking):
            yield ThinkingDelta(piece)
            await asyncio.sleep(self._pause)
        for piece in _split_chunks(turn.text):
            yield TextDelta(piece)
            await asyncio.sleep(self._pause * turn.pace)
        calls = (ToolCallRequest("", turn.tool, turn.arguments),) if turn.tool else ()
        message = AssistantMessage(turn.text, turn.thinking, calls)
        usage = Usage(_count_prompt_words(request), len(WORD_PATTERN.findall(turn.thinking + " " + turn.text)) + len(calls) * 10)
        yield Finished(message, usage, "tool_calls" if calls else "stop")

    async def aclose(self) -> None:
        pass


def _split_chunks(text: str) -> Sequence[str]:
    pieces: list[str] = CHUNK_PATTERN.findall(text)
    size = -(-len(pieces) // MAX_CHUNKS) or 1
    return ["".join(pieces[start : start + size]) for start in range(0, len(pieces), size)]


def _count_prompt_words(request: ModelRequest) -> int:
    """Tokens, roughly: words, and Chinese characters one by one."""
    texts = [request.system]
    for message in request.messages:
        match message:
            case UserMessage():
                texts.append(message.full_text)
            case AssistantMessage(text=text) | ToolResultMessage(text=text):
                texts.append(text)
    return sum(len(WORD_PATTERN.findall(text)) for text in texts)
