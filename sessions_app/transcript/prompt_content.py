"""Build the content blocks of a user message: its text, then its attachments. Pure.

A run's options store attachments as {type, attachmentId, mimeType, name, size, sha256}; the hash is not sent to clients.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Block = dict[str, Any]

COMPACT = "compact"  # run option: the run only compacts the session (compaction_requests.py) and has no message


def attachment_blocks(options: Mapping[str, Any]) -> list[Block]:
    """Return a run's attachments as clients see them."""
    return [{name: value for name, value in block.items() if name != "sha256"} for block in options.get("attachments", ())]


def build_prompt_content(prompt: str, options: Mapping[str, Any]) -> list[Block]:
    blocks = attachment_blocks(options)
    return [{"type": "text", "text": prompt}, *blocks] if prompt or not blocks else blocks


def comparable_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that identify a request; attachments are compared by content, not by ID.

    A client that resends its bytes after losing the response must get its first run, even if it uses a different trace.
    """
    options = {name: value for name, value in options.items() if name != "traceparent"}
    if "attachments" not in options:
        return options
    return {**options, "attachments": [[block["sha256"], block["name"]] for block in options["attachments"]]}


def list_attachment_ids(content: Sequence[Block]) -> list[str]:
    """List attachment IDs; entries may be imported, so only well-formed blocks count."""
    return [block["attachmentId"] for block in content if isinstance(block.get("attachmentId"), str)]
