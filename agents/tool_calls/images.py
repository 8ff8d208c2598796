"""Images that tools return, on their way into the rows: bytes to the attachments, names into the result."""

import base64
import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from clawsite.infra.errors import ClawError
from sessions_app.sessions import attachments
from sessions_app.sessions.attachments import StoredFile, record_tool_file, to_block
from tools_app.core.definition import ImageBlock

log = logging.getLogger(__name__)


def store_images(images: Sequence[ImageBlock]) -> list[StoredFile | None]:
    """Write the bytes, before and outside of any transaction. None for one that could not be kept: its result still counts."""
    return [_store_image(image) for image in images]


def _store_image(image: ImageBlock) -> StoredFile | None:
    try:
        return attachments.store_file([base64.b64decode(image.data)], image.name, image.mime_type)
    except (OSError, ValueError, ClawError) as error:  # a full disk; bytes that are no image after all
        log.warning("an image that a tool returned could not be kept: %s", error)
        return None


def replace_images_with_ids(
    content: Sequence[dict[str, Any]], stored: Sequence[StoredFile | None], session_id: UUID, owner_id: int
) -> list[dict[str, Any]]:
    """The blocks of a result with the ids of its images in place of their bytes."""
    left = list(stored)
    blocks: list[dict[str, Any]] = []
    for block in content:
        if block["type"] != "image":
            blocks.append(block)
        elif kept := left.pop(0):
            told = to_block(record_tool_file(session_id, owner_id, kept))
            blocks.append({name: value for name, value in told.items() if name != "sha256"})
        else:
            blocks.append({"type": "text", "text": "[an image could not be kept]"})
    return blocks
