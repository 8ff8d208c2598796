"""What an MCP tool gave back, as our content blocks. Pure: works on the wire form."""

import json
from collections.abc import Iterator
from typing import Any

from tools_app.core.definition import ImageBlock, TextBlock, ToolFailed, ToolResult
from tools_app.core.results import image_result

MAX_BLOCKS = 100


def parse_call_result(told: dict[str, Any]) -> ToolResult:
    """From a CallToolResult. Texts are cut and cleaned later, like those of every tool."""
    blocks = [block for each in told.get("content", [])[:MAX_BLOCKS] for block in _parse_blocks(each)]
    structured = told.get("structuredContent")
    if structured is not None and not any(isinstance(block, TextBlock) for block in blocks):
        # Servers should say it as text too; where they do not, the model would see nothing.
        blocks.append(TextBlock(json.dumps(structured, ensure_ascii=False)))
    details = {} if structured is None else {"structuredContent": structured}
    return ToolResult(tuple(blocks) or (TextBlock("(no content)"),), details, bool(told.get("isError")))


def _parse_blocks(told: dict[str, Any]) -> Iterator[TextBlock | ImageBlock]:
    match told:
        case {"type": "text", "text": str(text)}:
            yield TextBlock(text)
        case {"type": "image", "data": str(data)}:
            yield from _parse_image(data, "the image")
        case {"type": "resource_link", "uri": uri}:
            yield TextBlock(_describe_link(told, uri))
        case {"type": "resource", "resource": {"uri": uri, "text": str(text)}}:
            yield TextBlock(f"[resource {uri}]\n{text}")
        case {"type": "resource", "resource": {"uri": uri, "blob": str(data)}}:
            yield from _parse_image(data, str(uri))
        case {"type": kind}:
            yield TextBlock(f"[{kind} content is left out: it cannot be shown here]")


def _parse_image(data: str, name: str) -> tuple[TextBlock | ImageBlock, ...]:
    """The image behind a line that says what it is; or why there is none."""
    try:
        return image_result(data, name=name).content
    except ToolFailed as unfit:
        return (TextBlock(f"[left out: {unfit}]"),)


def _describe_link(told: dict[str, Any], uri: Any) -> str:
    name, kind, words = (str(told.get(key) or "") for key in ("name", "mimeType", "description"))
    return f"[link to {name or 'a resource'}: {uri}{f' ({kind})' if kind else ''}]{f' {words}' if words else ''}"
