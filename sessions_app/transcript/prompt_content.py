"""A user's message as content blocks: its words, then what is attached to it. Pure.

Attachments stand in a run's options as {type, attachmentId, mimeType, name, size, sha256}; the hash is for us, not for clients.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Block = dict[str, Any]

COMPACT = "compact"  # in a run's options: it only summarises the conversation (compactions.py), and has no message


def attachment_blocks(options: Mapping[str, Any]) -> list[Block]:
    """The attachments of a run as clients see them."""
    return [{name: value for name, value in block.items() if name != "sha256"} for block in options.get("attachments", ())]


def build_prompt_content(prompt: str, options: Mapping[str, Any]) -> list[Block]:
    blocks = attachment_blocks(options)
    return [{"type": "text", "text": prompt}, *blocks] if prompt or not blocks else blocks


def comparable_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that make a request the same or another one: attachments count by what is in them, not by their ids.

    A client that sends its bytes again, after it has lost the answer, must find its first run; so must one that says in another
    trace what it said before.
    """
    options = {name: value for name, value in options.items() if name != "traceparent"}
    if "attachments" not in options:
        return options
    return {**options, "attachments": [[block["sha256"], block["name"]] for block in options["attachments"]]}


def list_attachment_ids(content: Sequence[Block]) -> list[str]:
    """Of an entry that may come from an import: only what has the right shape."""
    return [block["attachmentId"] for block in content if isinstance(block.get("attachmentId"), str)]
