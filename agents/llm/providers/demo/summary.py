"""How the demo model summarises: it lists what the user said and which tools were used. Pure, and honest about being a script."""

import re
from collections import Counter
from collections.abc import Sequence

from agents.llm import summary_prompt
from agents.llm.messages import Message, UserMessage
from agents.llm.providers.demo.phrases import words_for
from agents.llm.providers.demo.script import Turn

SAID = re.compile(r"^\[User\]\n(.+)$", re.MULTILINE)
CALLED = re.compile(r"^\[Agent calls ([\w.-]+)\]", re.MULTILINE)
LISTED = re.compile(r"^- (.+)$", re.MULTILINE)
MOST, LONGEST = 20, 120


def summary_turn(messages: Sequence[Message]) -> Turn:
    record = "\n\n".join(message.words for message in messages if isinstance(message, UserMessage))
    words = words_for(" ".join(SAID.findall(record)) or record)
    before = record.partition(summary_prompt.BEFORE)[2].partition("\n[User]")[0]
    said = [line[:LONGEST] for line in dict.fromkeys([*LISTED.findall(before), *SAID.findall(record)])][-MOST:]
    lines = [words.summary_heading, "", *(f"- {line}" for line in said)]
    if used := Counter(CALLED.findall(record)):
        tools = ", ".join(f"`{name}` ({count})" for name, count in used.items())
        lines += ["", words.summary_tools.format(tools=tools)]
    return Turn("", "\n".join(lines))
