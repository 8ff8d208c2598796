"""How many tokens something has, roughly and at once. Pure: no tokenizer is loaded, so asking costs a length.

A quarter of the letters is right within a fifth for English and code; what is not ASCII counts by its bytes, since three of them
(a Chinese character) are about one token. Whoever compares with a limit leaves room for the fifth.
"""

from collections.abc import Iterable

import orjson

from agents.llm.base import ToolSpec
from agents.llm.messages import AssistantMessage, Message, ToolResultMessage, UserMessage

MESSAGE_OVERHEAD = 8  # what a provider puts around each one
IMAGE_TOKENS = 1_500  # about the dearest that providers count for one


def count_text_tokens(text: str) -> int:
    return -(-len(text) // 4) if text.isascii() else -(-len(text.encode()) // 3)


def count_message_tokens(message: Message) -> int:
    match message:
        case UserMessage(images=images):
            return MESSAGE_OVERHEAD + count_text_tokens(message.words) + IMAGE_TOKENS * len(images)
        case AssistantMessage(text=text, tool_calls=calls):  # what it thought is not sent back
            asked = sum(count_text_tokens(call.name) + count_text_tokens(orjson.dumps(call.arguments).decode()) for call in calls)
            return MESSAGE_OVERHEAD + count_text_tokens(text) + asked
        case ToolResultMessage(text=text, images=images):
            return MESSAGE_OVERHEAD + count_text_tokens(text) + IMAGE_TOKENS * len(images)


def count_tool_tokens(tools: Iterable[ToolSpec]) -> int:
    return sum(
        count_text_tokens(tool.name + tool.description) + count_text_tokens(orjson.dumps(tool.parameters).decode())
        for tool in tools
    )
