"""What a server sent, before anybody else has it: its own secrets taken out, and its words marked as those of a stranger."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.conf import settings

from tools_app.core.cleaning import clean_text
from tools_app.core.definition import ImageBlock, TextBlock, ToolResult
from tools_app.core.hidden_characters import remove_hidden
from tools_app.core.untrusted_text import wrap_untrusted_text
from tools_app.sources.mcp.content import parse_call_result

RemoveSecrets = Callable[[str], str]  # secrets


def build_tool_result(told: dict[str, Any], server: str, without: RemoveSecrets) -> ToolResult:
    """From a CallToolResult in wire form. A model gets all texts in one envelope; programs get the details as they were sent."""
    result = parse_call_result(told)
    # Secrets go first: in a text that was cut, half of one would not be found.
    text = without("\n".join(block.text for block in result.content if isinstance(block, TextBlock)))
    shown, invisible = remove_hidden(clean_text(_limit_text(text)))
    note = f"\n[{invisible} invisible characters were taken out]" if invisible else ""
    words = TextBlock(wrap_untrusted_text(without(shown), f"MCP server `{server}`") + note)
    images = (block for block in result.content if isinstance(block, ImageBlock))
    return replace(result, content=(words, *images), details=_remove_secrets_everywhere(result.details, without))


def _limit_text(text: str) -> str:
    """More than the result will hold, so that it is cut as every other is; and no megabytes to be looked at letter by letter."""
    room = int(settings.TOOL_RESULT_KB * 1024)
    left_out = len(text) - 2 * room
    if left_out <= 0:
        return text
    return f"{text[:room]}\n[{left_out} of {len(text)} characters are left out here]\n{text[-room:]}"


def _remove_secrets_everywhere(value: Any, without: RemoveSecrets) -> Any:
    match value:
        case str():
            return without(value)
        case dict():
            return {without(str(key)): _remove_secrets_everywhere(each, without) for key, each in value.items()}
        case list():
            return [_remove_secrets_everywhere(each, without) for each in value]
    return value
