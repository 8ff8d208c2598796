"""What the platform tools keep to in their answers: they fit, say whose words they hold, and tell refusals in words."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from clawsite.infra.errors import ClawError
from tools_app.core.definition import TextBlock, ToolFailed, ToolResult
from tools_app.core.untrusted_text import enveloped

# Measured as ASCII, six bytes for each of most characters beyond it. A result may have 100 KB of text and as much of details.
MOST_BYTES = 60_000


def words_of_others(result: ToolResult, whose: str) -> ToolResult:
    """The same result, with text that says that what it holds was written by others, and by whom."""
    return replace(result, content=(TextBlock(enveloped(result.text, whose)),))


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
