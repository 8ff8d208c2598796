"""Build the content blocks of a user message: its text, then its attachments. Pure."""

from collections.abc import Sequence
from typing import Any

Block = dict[str, Any]


def visible_attachments(attachments: Sequence[Block]) -> list[Block]:
    """Return a run's attachments as clients see them: without the hash of their content."""
    return [{name: value for name, value in block.items() if name != "sha256"} for block in attachments]


def build_prompt_content(prompt: str, attachments: Sequence[Block]) -> list[Block]:
    blocks = visible_attachments(attachments)
    return [{"type": "text", "text": prompt}, *blocks] if prompt or not blocks else blocks


def list_attachment_ids(content: Sequence[Block]) -> list[str]:
    """List attachment IDs; entries may be imported, so only well-formed blocks count."""
    return [block["attachmentId"] for block in content if isinstance(block.get("attachmentId"), str)]
