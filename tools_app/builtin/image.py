"""The image tool: shows the model an image from the workspace, or one attached earlier in the session."""

import asyncio

from pydantic import Field

from clawsite.infra import db
from clawsite.infra.reasons import Reason
from sessions_app.models import Attachment
from sessions_app.sessions.attachments import path_of
from tools_app.builtin.files.workspace import Workspace
from tools_app.core.definition import CallContext, ToolArgs, ToolEnv, ToolFailed, ToolFunction, ToolResult, ToolUnavailable, tool
from tools_app.core.results import image_result_from_bytes


class ImageArgs(ToolArgs):
    path: str = Field(description="Image file, relative to the workspace; or the name of an image attached in this session")


@tool("image", args=ImageArgs, read_only=True)
def make_image(env: ToolEnv) -> ToolFunction[ImageArgs]:
    """Look at an image: PNG, JPEG, GIF or WebP, at most 5 MB and 8000 pixels on either side.
    Use it for images in the workspace, and for attached images that are no longer shown."""
    if not env.takes_images:
        raise ToolUnavailable(Reason("tool.no_image_input", model=env.model))
    workspace = Workspace(env.workspace) if env.workspace else None

    async def image(args: ImageArgs, call: CallContext) -> ToolResult:
        content = await asyncio.to_thread(_read_from_workspace, workspace, args.path) if workspace else None
        if content is None:
            content = await db.read(_read_attachment, env.session_id, args.path)
        return await asyncio.to_thread(_image_result, content, args.path)

    return image


def _read_from_workspace(workspace: Workspace, path: str) -> bytes | None:
    return workspace.read(path)[0] if workspace.stat(path) else None


def _image_result(content: bytes, path: str) -> ToolResult:
    return image_result_from_bytes(content, name=path.rsplit("/", 1)[-1] or path, details={"path": path})


def _read_attachment(session_id: str, name: str) -> bytes:
    """Return the content of the session's newest image with that name."""
    attachment = Attachment.objects.filter(session_id=session_id, name=name, is_image=True).order_by("-created_at").first()
    if attachment is None:
        raise ToolFailed(f"`{name}` is neither a file in the workspace nor an image attached in this session")
    try:
        return path_of(attachment.sha256).read_bytes()
    except OSError:
        raise ToolFailed(f"the attached image `{name}` no longer exists") from None
