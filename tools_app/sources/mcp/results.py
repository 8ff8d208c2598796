"""Prepare a server's result: remove the server's secrets and mark its text as untrusted."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.conf import settings

from tools_app.core.cleaning import clean_text
from tools_app.core.definition import ImageBlock, TextBlock, ToolResult
from tools_app.core.hidden_characters import remove_hidden
from tools_app.core.untrusted_text import wrap_untrusted_text
from tools_app.sources.mcp.content import parse_call_result

RemoveSecrets = Callable[[str], str]


def build_tool_result(message: dict[str, Any], server: str, without: RemoveSecrets) -> ToolResult:
    """Build the result from a CallToolResult in wire form. The model gets all text in one envelope; details stay as sent."""
    result = parse_call_result(message)
    # Remove secrets before truncating: half a secret would not be recognized.
    text = without("\n".join(block.text for block in result.content if isinstance(block, TextBlock)))
    shown, invisible = remove_hidden(clean_text(_limit_text(text)))
    note = f"\n[{invisible} invisible characters removed]" if invisible else ""
    text_block = TextBlock(wrap_untrusted_text(without(shown), f"MCP server `{server}`") + note)
    images = (block for block in result.content if isinstance(block, ImageBlock))
    return replace(result, content=(text_block, *images), details=_remove_secrets_everywhere(result.details, without))


def _limit_text(text: str) -> str:
    """Truncate to more than the result can hold: the usual limit still applies, but megabytes of text aren't scanned."""
    room = int(settings.TOOL_RESULT_KB * 1024)
    left_out = len(text) - 2 * room
    if left_out <= 0:
        return text
    return f"{text[:room]}\n[{left_out} of {len(text)} characters left out]\n{text[-room:]}"


def _remove_secrets_everywhere(value: Any, without: RemoveSecrets) -> Any:
    match value:
        case str():
            return without(value)
        case dict():
            return {without(str(key)): _remove_secrets_everywhere(each, without) for key, each in value.items()}
        case list():
            return [_remove_secrets_everywhere(each, without) for each in value]
    return value
