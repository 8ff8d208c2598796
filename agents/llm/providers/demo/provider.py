"""The built-in demo model `demo/clawsite`: needs no key and no network, so that everything can be tried immediately.

It streams the replies of `script`, word by word as a model would. It follows a fixed script and says so.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence

from agents.llm import summary_prompt
from agents.llm.base import Finished, ModelRequest, StreamEvent, TextDelta, ThinkingDelta, Usage
from agents.llm.messages import AssistantMessage, Message, ToolCallRequest, ToolResultMessage, UserMessage
from agents.llm.providers.demo.phrases import choose_phrases
from agents.llm.providers.demo.script import DemoReply, next_reply

CHUNK_PATTERN = re.compile(r"[一-鿿]{1,2}|[^\s一-鿿]+\s*|\s+")  # a word with trailing whitespace, or two Chinese characters
WORD_PATTERN = re.compile(r"[一-鿿]|[^\s一-鿿]+")
PAUSE_S = 0.015
MAX_CHUNKS = 120  # longer texts are streamed in larger chunks, so that none takes more than 2 s


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
    """Estimate the tokens: one per word or Chinese character."""
    texts = [request.system]
    for message in request.messages:
        match message:
            case UserMessage():
                texts.append(message.full_text)
            case AssistantMessage(text=text) | ToolResultMessage(text=text):
                texts.append(text)
    return sum(len(WORD_PATTERN.findall(text)) for text in texts)


USER_MESSAGE = re.compile(r"^\[User\]\n(.+)$", re.MULTILINE)
TOOL_CALL = re.compile(r"^\[Agent calls ([\w.-]+)\]", re.MULTILINE)
LIST_ITEM = re.compile(r"^- (.+)$", re.MULTILINE)
MAX_ITEMS, MAX_ITEM_LENGTH = 20, 120


def summary_reply(messages: Sequence[Message]) -> DemoReply:
    record = "\n\n".join(message.full_text for message in messages if isinstance(message, UserMessage))
    words = choose_phrases(" ".join(USER_MESSAGE.findall(record)) or record)
    before = record.partition(summary_prompt.PREVIOUS_SUMMARY_HEADING)[2].partition("\n[User]")[0]
    said = [line[:MAX_ITEM_LENGTH] for line in dict.fromkeys([*LIST_ITEM.findall(before), *USER_MESSAGE.findall(record)])][
        -MAX_ITEMS:
    ]
    lines = [words.summary_heading, "", *(f"- {line}" for line in said)]
    if used := Counter(TOOL_CALL.findall(record)):
        tools = ", ".join(f"`{name}` ({count})" for name, count in used.items())
        lines += ["", words.summary_tools.format(tools=tools)]
    return DemoReply("", "\n".join(lines))
