"""Record what happens to the calls of a turn, each step in its own commit. Images become attachments."""

import base64
import logging
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from agents.run_store import RunStore
from agents.tool_calls.authorize import Decisions
from agents.tool_calls.start import start_call
from clawsite.infra import db
from clawsite.infra.errors import ClawError
from sessions_app.runs import queue, tool_calls
from sessions_app.runs.queue import ClaimedRun, LeaseLost
from sessions_app.sessions import attachments
from sessions_app.sessions.attachments import StoredFile, record_tool_file, to_block
from tools_app.core.definition import CallRef, Deferred, ImageBlock, ToolResult
from tools_app.execute import CallNotStarted
from tools_app.toolset import Toolset

log = logging.getLogger(__name__)


class TurnJournal:
    """The journal of tools_app.execute for the calls of one turn."""

    def __init__(self, store: RunStore, decisions: Decisions, toolset: Toolset) -> None:
        self._store, self._decisions, self._toolset = store, decisions, toolset

    def may_act(self) -> bool:
        return self._store.may_act()

    async def started(self, call: CallRef) -> None:
        if denial := await self._store.write(start_call, self._decisions[call.id], self._toolset):
            raise CallNotStarted(denial)
        if not self.may_act():
            raise LeaseLost(f"the lease may have expired before call {call.id} could start")

    async def updated(self, call: CallRef, partial: ToolResult) -> None:
        await self._store.write(queue.write_step, events=[tool_calls.build_update_event(call.id, call.name, partial.text)])

    async def deferred(self, call: CallRef, deferred: Deferred) -> None:
        await self._store.write(tool_calls.record_deferral, call.id, deferred.kind, deferred.ref, deferred.deadline_s)

    async def ended(self, call: CallRef, result: ToolResult) -> None:
        await record_result(self._store, call, result)


async def record_result(store: RunStore, call: CallRef, result: ToolResult) -> None:
    """Store a result. Images are stored as attachments; rows and events only refer to them by ID."""
    images = [block for block in result.content if isinstance(block, ImageBlock)]
    stored = await db.read(_store_images, images) if images else []
    await store.write(_store_result, call, result, stored)


def _store_result(claimed: ClaimedRun, call: CallRef, result: ToolResult, stored: Sequence[StoredFile | None]) -> None:
    data = result.to_json()
    if stored:
        data["content"] = _replace_images_with_ids(data["content"], stored, claimed.session_id, claimed.session_owner_id)
    tool_calls.record_result(claimed, call.id, call.name, data, text=result.text, is_error=result.is_error)


def _store_images(images: Sequence[ImageBlock]) -> list[StoredFile | None]:
    """Write the image files, outside any transaction. None for an image that could not be stored; its result is kept."""
    return [_store_image(image) for image in images]


def _store_image(image: ImageBlock) -> StoredFile | None:
    try:
        return attachments.store_file([base64.b64decode(image.data)], image.name, image.mime_type)
    except (OSError, ValueError, ClawError) as error:  # a full disk, or bytes that are not an image
        log.warning("could not store an image returned by a tool: %s", error)
        return None


def _replace_images_with_ids(
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
