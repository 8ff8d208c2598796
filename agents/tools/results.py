"""Helpers for results of the session and memory tools: size limit, untrusted content, errors."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from clawsite.infra.errors import ClawError
from tools_app.core.definition import TextBlock, ToolFailed, ToolResult
from tools_app.core.untrusted_text import wrap_untrusted_text

# Measured as ASCII JSON, where most non-ASCII characters take six bytes. Text and details of a result may have 100 KB each.
MAX_RESULT_BYTES = 60_000


def mark_untrusted(result: ToolResult, whose: str) -> ToolResult:
    """Wrap the result's text in an envelope that says who wrote it."""
    return replace(result, content=(TextBlock(wrap_untrusted_text(result.text, whose)),))


def count_fitting(items: Sequence[Any], room: int = MAX_RESULT_BYTES) -> int:
    """Return how many items, from the first, fit in one result; at least one."""
    for number, item in enumerate(items):
        room -= len(json.dumps(item))
        if room < 0:
            return max(number, 1)
    return len(items)


@contextmanager
def errors_as_tool_failures() -> Iterator[None]:
    """Turn service errors into tool failures with the same message."""
    try:
        yield
    except ClawError as error:
        raise ToolFailed(error.message) from error
