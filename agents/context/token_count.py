"""How many tokens something has, roughly and at once. Pure: no tokenizer is loaded, so asking costs a length.

A quarter of the letters is right within a fifth for English and code; what is not ASCII counts by its bytes, since three of them
(a Chinese character) are about one token. Whoever compares with a limit leaves room for the fifth.
"""

from collections.abc import Iterable

import orjson

from agents.llm.base import ToolSpec
from agents.llm.messages import AssistantMessage, Message, ToolResultMessage, UserMessage

AROUND_MESSAGE = 8  # what a provider puts around each one
OF_IMAGE = 1_500  # about the dearest that providers count for one


def in_text(text: str) -> int:
    return -(-len(text) // 4) if text.isascii() else -(-len(text.encode()) // 3)


def in_message(message: Message) -> int:
    match message:
        case UserMessage(images=images):
            return AROUND_MESSAGE + in_text(message.words) + OF_IMAGE * len(images)
        case AssistantMessage(text=text, tool_calls=calls):  # what it thought is not sent back
            asked = sum(in_text(call.name) + in_text(orjson.dumps(call.arguments).decode()) for call in calls)
            return AROUND_MESSAGE + in_text(text) + asked
        case ToolResultMessage(text=text, images=images):
            return AROUND_MESSAGE + in_text(text) + OF_IMAGE * len(images)


def in_tools(tools: Iterable[ToolSpec]) -> int:
    return sum(in_text(tool.name + tool.description) + in_text(orjson.dumps(tool.parameters).decode()) for tool in tools)
