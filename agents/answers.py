"""How the platform tools answer: one JSON object, as text for the model and as details for everybody else."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson

from clawsite.infra.errors import ClawError
from tools_app.definition import ToolFailed, ToolResult, text_result
from tools_app.outside_text import enveloped

# Measured as ASCII, six bytes for each of most characters beyond it. A result may have 100 KB of text and as much of details.
MOST_BYTES = 60_000


def json_answer(value: dict[str, Any], *, others_words: str = "", is_error: bool = False) -> ToolResult:
    """With `others_words`, the text says that what it holds was written by others, and by whom."""
    text = orjson.dumps(value).decode()
    return text_result(enveloped(text, others_words) if others_words else text, details=value, is_error=is_error)


def how_many_fit(items: Sequence[Any], room: int = MOST_BYTES) -> int:
    """The number of items, from the first on, that one answer has room for; at least one."""
    for number, item in enumerate(items):
        room -= len(json.dumps(item))
        if room < 0:
            return max(number, 1)
    return len(items)


@contextmanager
def refusals_in_words() -> Iterator[None]:
    """What the state layer refuses is told to the model in its own words."""
    try:
        yield
    except ClawError as error:
        raise ToolFailed(error.message) from error
