"""What a server sent, before anybody else has it: its own secrets taken out, and its words marked as those of a stranger."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from django.conf import settings

from tools_app.core.cleaning import clean
from tools_app.core.definition import ImageBlock, TextBlock, ToolFailed, ToolResult
from tools_app.core.hidden_characters import visible
from tools_app.core.results import image_result
from tools_app.core.untrusted_text import enveloped

Without = Callable[[str], str]  # secrets


def answer_of(told: dict[str, Any], server: str, without: Without) -> ToolResult:
    """From a CallToolResult in wire form. A model gets all texts in one envelope; programs get the details as they were sent."""
    result = result_of(told)
    # Secrets go first: in a text that was cut, half of one would not be found.
    text = without("\n".join(block.text for block in result.content if isinstance(block, TextBlock)))
    shown, invisible = visible(clean(_bounded(text)))
    note = f"\n[{invisible} invisible characters were taken out]" if invisible else ""
    words = TextBlock(enveloped(without(shown), f"MCP server `{server}`") + note)
    images = (block for block in result.content if isinstance(block, ImageBlock))
    return replace(result, content=(words, *images), details=_all(result.details, without))


def _bounded(text: str) -> str:
    """More than the result will hold, so that it is cut as every other is; and no megabytes to be looked at letter by letter."""
    room = int(settings.TOOL_RESULT_KB * 1024)
    left_out = len(text) - 2 * room
    if left_out <= 0:
        return text
    return f"{text[:room]}\n[{left_out} of {len(text)} characters are left out here]\n{text[-room:]}"


def _all(value: Any, without: Without) -> Any:
    match value:
        case str():
            return without(value)
        case dict():
            return {without(str(key)): _all(each, without) for key, each in value.items()}
        case list():
            return [_all(each, without) for each in value]
    return value


MAX_BLOCKS = 100


def result_of(told: dict[str, Any]) -> ToolResult:
    """From a CallToolResult. Texts are cut and cleaned later, like those of every tool."""
    blocks = [block for each in told.get("content", [])[:MAX_BLOCKS] for block in _blocks(each)]
    structured = told.get("structuredContent")
    if structured is not None and not any(isinstance(block, TextBlock) for block in blocks):
        # Servers should say it as text too; where they do not, the model would see nothing.
        blocks.append(TextBlock(json.dumps(structured, ensure_ascii=False)))
    details = {} if structured is None else {"structuredContent": structured}
    return ToolResult(tuple(blocks) or (TextBlock("(no content)"),), details, bool(told.get("isError")))


def _blocks(told: dict[str, Any]) -> Iterator[TextBlock | ImageBlock]:
    match told:
        case {"type": "text", "text": str(text)}:
            yield TextBlock(text)
        case {"type": "image", "data": str(data)}:
            yield from _image(data, "the image")
        case {"type": "resource_link", "uri": uri}:
            yield TextBlock(_link(told, uri))
        case {"type": "resource", "resource": {"uri": uri, "text": str(text)}}:
            yield TextBlock(f"[resource {uri}]\n{text}")
        case {"type": "resource", "resource": {"uri": uri, "blob": str(data)}}:
            yield from _image(data, str(uri))
        case {"type": kind}:
            yield TextBlock(f"[{kind} content is left out: it cannot be shown here]")


def _image(data: str, name: str) -> tuple[TextBlock | ImageBlock, ...]:
    """The image behind a line that says what it is; or why there is none."""
    try:
        return image_result(data, name=name).content
    except ToolFailed as unfit:
        return (TextBlock(f"[left out: {unfit}]"),)


def _link(told: dict[str, Any], uri: Any) -> str:
    name, kind, words = (str(told.get(key) or "") for key in ("name", "mimeType", "description"))
    return f"[link to {name or 'a resource'}: {uri}{f' ({kind})' if kind else ''}]{f' {words}' if words else ''}"
