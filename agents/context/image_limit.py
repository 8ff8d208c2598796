"""Choose the images of a history that are sent to the model: the newest that fit in one request. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from agents.llm.messages import AssistantMessage, Image, Message, ToolResultMessage, UserMessage

MAX_IMAGES, MAX_TOTAL_IMAGE_BYTES = 20, 20 << 20  # per request; provider limits differ, and exceeding one fails the whole request


def limit_images(messages: Sequence[Message], *, takes_images: bool) -> list[Message]:
    """Keep the newest images that fit and replace the others with notes."""
    count = size = 0
    shown: list[Message] = []
    for message in reversed(messages):
        if isinstance(message, AssistantMessage) or not message.images:
            shown.append(message)
            continue
        kept, notes = [], []
        for image in message.images:
            count, size = count + 1, size + len(image.data)
            if takes_images and count <= MAX_IMAGES and size <= MAX_TOTAL_IMAGE_BYTES:
                kept.append(image)
            else:
                notes.append(_omitted_image_note(image, takes_images))
        shown.append(_replace_images(message, tuple(kept), notes))
    return shown[::-1]


def _omitted_image_note(image: Image, takes_images: bool) -> str:
    why = "too many newer images" if takes_images else "this model takes no images"
    return f'[Image "{image.name}" ({image.mime_type}); not shown: {why}]'


def _replace_images(message: UserMessage | ToolResultMessage, images: tuple[Image, ...], notes: Sequence[str]) -> Message:
    if not notes:
        return message
    return replace(message, text="\n\n".join(part for part in (message.text, *notes) if part), images=images)
