"""Convert the result of an MCP tool to our content blocks. Pure: works on the wire form."""

import json
from collections.abc import Iterator
from typing import Any

from tools_app.core.definition import ImageBlock, TextBlock, ToolFailed, ToolResult
from tools_app.core.results import image_result

MAX_BLOCKS = 100


def parse_call_result(message: dict[str, Any]) -> ToolResult:
    """Parse a CallToolResult. Text is cleaned and truncated later, as for every tool."""
    blocks = [block for each in message.get("content", [])[:MAX_BLOCKS] for block in _parse_blocks(each)]
    structured = message.get("structuredContent")
    if structured is not None and not any(isinstance(block, TextBlock) for block in blocks):
        # Servers should also send it as text; without this the model would see nothing.
        blocks.append(TextBlock(json.dumps(structured, ensure_ascii=False)))
    details = {} if structured is None else {"structuredContent": structured}
    return ToolResult(tuple(blocks) or (TextBlock("(no content)"),), details, bool(message.get("isError")))


def _parse_blocks(block: dict[str, Any]) -> Iterator[TextBlock | ImageBlock]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield TextBlock(text)
        case {"type": "image", "data": str(data)}:
            yield from _parse_image(data, "the image")
        case {"type": "resource_link", "uri": uri}:
            yield TextBlock(_describe_link(block, uri))
        case {"type": "resource", "resource": {"uri": uri, "text": str(text)}}:
            yield TextBlock(f"[resource {uri}]\n{text}")
        case {"type": "resource", "resource": {"uri": uri, "blob": str(data)}}:
            yield from _parse_image(data, str(uri))
        case {"type": kind}:
            yield TextBlock(f"[{kind} content left out: can't be shown here]")


def _parse_image(data: str, name: str) -> tuple[TextBlock | ImageBlock, ...]:
    """Return the image after a line that describes it, or a line that says why it was left out."""
    try:
        return image_result(data, name=name).content
    except ToolFailed as unfit:
        return (TextBlock(f"[left out: {unfit}]"),)


def _describe_link(block: dict[str, Any], uri: Any) -> str:
    name, kind, description = (str(block.get(key) or "") for key in ("name", "mimeType", "description"))
    return f"[link to {name or 'a resource'}: {uri}{f' ({kind})' if kind else ''}]{f' {description}' if description else ''}"
