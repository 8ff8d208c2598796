"""The built-in demo model `demo/clawsite`: needs no key and no network, so that everything can be tried at once.

It streams what `demo_script` answers, word by word as a model would. It is a fixed script and says so.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence

from agents.llm import summary_prompt
from agents.llm.base import Finished, ModelRequest, StreamEvent, TextDelta, ThinkingDelta, Usage
from agents.llm.messages import AssistantMessage, ToolCallAsked, ToolResultMessage, UserMessage
from agents.llm.providers.demo.script import next_turn
from agents.llm.providers.demo.summary import summary_turn

PIECES = re.compile(r"[一-鿿]{1,2}|[^\s一-鿿]+\s*|\s+")  # a word with its blank, or two Chinese characters
WORDS = re.compile(r"[一-鿿]|[^\s一-鿿]+")
PAUSE_S = 0.015
MOST_PIECES = 120  # a long file is shown in larger pieces rather than for longer: 2 s at most


class DemoProvider:
    def __init__(self, pause: float = PAUSE_S) -> None:
        self._pause = pause

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        if request.system == summary_prompt.SYSTEM:
            turn = summary_turn(request.messages)
        else:
            turn = next_turn(request.messages, [tool.name for tool in request.tools])
        for piece in _pieces(turn.thinking):
            yield ThinkingDelta(piece)
            await asyncio.sleep(self._pause)
        for piece in _pieces(turn.text):
            yield TextDelta(piece)
            await asyncio.sleep(self._pause * turn.pace)
        calls = (ToolCallAsked("", turn.tool, turn.arguments),) if turn.tool else ()
        message = AssistantMessage(turn.text, turn.thinking, calls)
        usage = Usage(_prompt_words(request), len(WORDS.findall(turn.thinking + " " + turn.text)) + len(calls) * 10)
        yield Finished(message, usage, "tool_calls" if calls else "stop")

    async def aclose(self) -> None:
        pass


def _pieces(text: str) -> Sequence[str]:
    pieces: list[str] = PIECES.findall(text)
    size = -(-len(pieces) // MOST_PIECES) or 1
    return ["".join(pieces[start : start + size]) for start in range(0, len(pieces), size)]


def _prompt_words(request: ModelRequest) -> int:
    """Tokens, roughly: words, and Chinese characters one by one."""
    texts = [request.system]
    for message in request.messages:
        match message:
            case UserMessage():
                texts.append(message.words)
            case AssistantMessage(text=text) | ToolResultMessage(text=text):
                texts.append(text)
    return sum(len(WORDS.findall(text)) for text in texts)
