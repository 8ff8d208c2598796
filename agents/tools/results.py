"""What the platform tools keep to in their answers: they fit, say whose words they hold, and tell refusals in words."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from clawsite.infra.errors import ClawError
from tools_app.core.definition import TextBlock, ToolFailed, ToolResult
from tools_app.core.untrusted_text import wrap_untrusted_text

# Measured as ASCII, six bytes for each of most characters beyond it. A result may have 100 KB of text and as much of details.
MAX_RESULT_BYTES = 60_000


def mark_untrusted(result: ToolResult, whose: str) -> ToolResult:
    """The same result, with text that says that what it holds was written by others, and by whom."""
    return replace(result, content=(TextBlock(wrap_untrusted_text(result.text, whose)),))


def count_fitting(items: Sequence[Any], room: int = MAX_RESULT_BYTES) -> int:
    """The number of items, from the first on, that one answer has room for; at least one."""
    for number, item in enumerate(items):
        room -= len(json.dumps(item))
        if room < 0:
            return max(number, 1)
    return len(items)


@contextmanager
def errors_as_tool_failures() -> Iterator[None]:
    """What the state layer refuses is told to the model in its own words."""
    try:
        yield
    except ClawError as error:
        raise ToolFailed(error.message) from error
