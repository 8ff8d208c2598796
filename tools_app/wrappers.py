"""One authorised call, made safe to run: arguments checked, time limited, failures in words, the result cleaned and cut.

Whatever goes wrong becomes a result the model can read. Cancellation alone passes through.
"""

import asyncio
import json
import logging
import re
from dataclasses import replace
from typing import Any

from tools_app.authorize import AuthorizedCall
from tools_app.definition import BadArguments, Call, ImageBlock, TextBlock, Tool, ToolFailed, ToolResult, text_result

logger = logging.getLogger(__name__)

MAX_RESULT_BYTES = 100 * 1024
MAX_ARGUMENT_ERRORS = 5
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
SURROGATE = re.compile(r"[\ud800-\udfff]")  # from file names that are not UTF-8; no database stores one


async def perform(authorized: AuthorizedCall, call: Call) -> ToolResult:
    """Run one call to its result."""
    if not isinstance(authorized, AuthorizedCall):
        raise TypeError("only an authorised call can run")
    tool = authorized.tool
    try:
        args = tool.check(authorized.ref.arguments)
    except BadArguments as error:
        return tidy(text_result(_argument_errors(tool, error), details={"code": "invalid_arguments"}, is_error=True))
    limit = asyncio.timeout(tool.timeout_s)
    try:
        async with limit:
            result = await tool.perform(args, call)
        return tidy(result)
    except ToolFailed as failure:
        return tidy(text_result(str(failure), is_error=True))
    except Exception as error:
        if isinstance(error, TimeoutError) and limit.expired():
            words = f"tool_timeout: `{tool.name}` was stopped after {tool.timeout_s:g} s. It may have done part of its work."
            return text_result(words, details={"code": "tool_timeout"}, is_error=True)
        logger.exception("tool %s failed in call %s", tool.name, authorized.ref.id)
        # The class helps a person who reads along; the message may hold paths or secrets.
        return text_result(f"the tool failed unexpectedly ({type(error).__name__})", details={"code": "tool_failed"}, is_error=True)


def _argument_errors(tool: Tool, error: BadArguments) -> str:
    problems = [f"`{place or 'arguments'}`: {words}" for place, words in error.faults[:MAX_ARGUMENT_ERRORS]]
    names = ", ".join(f"`{name}`" for name in tool.parameters["properties"]) or "none"
    return f"invalid arguments for `{tool.name}`: {'; '.join(problems)}. It did not run. Its arguments are: {names}."


def tidy(result: ToolResult) -> ToolResult:
    """Control characters out, at most 100 KB of text and as much of details; what was cut is said."""
    cleaned = replace(
        result,
        content=tuple(TextBlock(clean(block.text)) if isinstance(block, TextBlock) else block for block in result.content),
        details=_clean_all(result.details),
    )
    size = len(json.dumps(cleaned.details))
    details = cleaned.details if size <= MAX_RESULT_BYTES else {"cut": f"details of {size} bytes are left out"}
    return replace(cleaned, content=_cut(cleaned.content), details=details)


def clean(text: str) -> str:
    """Line ends as \\n, no other control characters than tab, and nothing that cannot be written as UTF-8."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return SURROGATE.sub("\ufffd", CONTROL.sub("", text))


def _clean_all(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(key)): _clean_all(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean_all(each) for each in value]
    return value


def _cut(content: tuple[TextBlock | ImageBlock, ...]) -> tuple[TextBlock | ImageBlock, ...]:
    total = sum(len(block.text.encode()) for block in content if isinstance(block, TextBlock))
    if total <= MAX_RESULT_BYTES:
        return content
    room = MAX_RESULT_BYTES
    kept: list[TextBlock | ImageBlock] = []
    for block in content:
        if isinstance(block, ImageBlock):
            kept.append(block)
        elif room:
            text = block.text.encode()[:room].decode(errors="ignore")
            room = max(0, room - len(block.text.encode()))
            kept.append(TextBlock(text))
    return (*kept, TextBlock(f"[cut: the first {MAX_RESULT_BYTES} of {total} bytes are shown]"))
