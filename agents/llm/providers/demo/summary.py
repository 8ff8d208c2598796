"""The demo model's summaries: a list of user messages and tools used, which says that it comes from a script. Pure."""

import re
from collections import Counter
from collections.abc import Sequence

from agents.llm import summary_prompt
from agents.llm.messages import Message, UserMessage
from agents.llm.providers.demo.phrases import choose_phrases
from agents.llm.providers.demo.script import DemoReply

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
