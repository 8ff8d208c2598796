"""Store images that tools return as attachments, and refer to them by ID in the results."""

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
    """Write the image files, outside any transaction. None for an image that could not be stored; its result is kept."""
    return [_store_image(image) for image in images]


def _store_image(image: ImageBlock) -> StoredFile | None:
    try:
        return attachments.store_file([base64.b64decode(image.data)], image.name, image.mime_type)
    except (OSError, ValueError, ClawError) as error:  # a full disk, or bytes that are not an image
        log.warning("could not store an image returned by a tool: %s", error)
        return None


def replace_images_with_ids(
    content: Sequence[dict[str, Any]], stored: Sequence[StoredFile | None], session_id: UUID, owner_id: int
) -> list[dict[str, Any]]:
    """Return the blocks of a result with image bytes replaced by attachment IDs."""
    left = list(stored)
    blocks: list[dict[str, Any]] = []
    for block in content:
        if block["type"] != "image":
            blocks.append(block)
        elif file := left.pop(0):
            image_block = to_block(record_tool_file(session_id, owner_id, file))
            blocks.append({name: value for name, value in image_block.items() if name != "sha256"})
        else:
            blocks.append({"type": "text", "text": "[an image could not be stored]"})
    return blocks
