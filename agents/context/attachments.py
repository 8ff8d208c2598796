"""Attachments as a model gets them: images as images, short texts in full, everything else by name and path.

Files are copied to `uploads/` in the run's workspace, where tools can read them. Attached text is data, so it is fenced off from
the person's own text.
"""

import hashlib
import logging
import os
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agents.context.image_limit import MAX_IMAGES, MAX_TOTAL_IMAGE_BYTES
from agents.llm.messages import AttachedFile, Image
from clawsite.accounts.models import User
from clawsite.infra import db
from sessions_app.models import Attachment
from sessions_app.runs.queue import ClaimedRun
from sessions_app.sessions.attachments import path_of
from sessions_app.sessions.file_types import decode_text, format_size
from sessions_app.transcript.messages import HistoryEntry
from sessions_app.transcript.prompt_content import list_attachment_ids
from tools_app.builtin.files import tree

log = logging.getLogger(__name__)

UPLOADS_DIR = "uploads"
MAX_INLINE_TEXT_BYTES = 64 << 10  # files up to this size are included in the message
MAX_IMAGE_BYTES = 5 << 20  # provider limit

AttachedContent = Mapping[str, Image | AttachedFile]  # by attachment ID
NO_ATTACHMENTS: AttachedContent = {}


async def load_attachments(
    claimed: ClaimedRun, entries: Sequence[HistoryEntry], workspace: Path, *, takes_images: bool
) -> AttachedContent:
    """Load all attachments of the history. Those of this run's own message are copied to the workspace first."""
    ids = [one for entry in reversed(entries) for one in _list_attachment_ids(entry)]
    if not ids:
        return NO_ATTACHMENTS
    rows = await db.read(_find_visible, claimed.session_owner_id, ids)
    mine = set(list_attachment_ids(claimed.request.attachments))
    shown = _choose_images(rows, takes_images)
    to_save = [row for row in rows if str(row.pk) in mine and not row.saved_as and str(row.pk) not in shown]
    if to_save:
        saved = await db.read(_copy_all, to_save, workspace)
        await db.write(_mark_saved, saved, key=str(claimed.session_id))
        for row in to_save:
            row.saved_as = saved[row]
    return await db.read(_read_contents, rows, shown, takes_images)


def tool_result_images(entry: HistoryEntry, contents: AttachedContent) -> tuple[Image, ...]:
    """Return the images of a tool result; one that can no longer be shown is only named in its text."""
    return tuple(image for one in _list_attachment_ids(entry) if isinstance(image := contents.get(one), Image))


def _list_attachment_ids(entry: HistoryEntry) -> list[str]:
    """List attachment IDs; ignores malformed values, because the entry may be imported."""
    if entry.role == "user":
        return list_attachment_ids(entry.content)
    named = entry.meta.get("imageIds")
    return [one for one in named if isinstance(one, str)] if isinstance(named, list) else []


def _find_visible(owner_id: int, ids: Sequence[str]) -> list[Attachment]:
    """Return attachments in the given order. An imported transcript may name any ID, so only the owner's are returned."""
    owner = User.objects.get(pk=owner_id)
    wanted = [one for one in ids if re.fullmatch(r"[0-9a-f-]{36}", one)]
    by_id = {str(row.pk): row for row in Attachment.objects.for_user(owner).filter(pk__in=wanted)}
    return [by_id[one] for one in dict.fromkeys(wanted) if one in by_id]


def _choose_images(rows: Iterable[Attachment], takes_images: bool) -> set[str]:
    shown: set[str] = set()
    size = 0
    for row in rows:
        if takes_images and row.is_image and row.size <= MAX_IMAGE_BYTES and len(shown) < MAX_IMAGES:
            size += row.size
            if size <= MAX_TOTAL_IMAGE_BYTES:
                shown.add(str(row.pk))
    return shown


def _read_contents(rows: Iterable[Attachment], shown: set[str], takes_images: bool) -> AttachedContent:
    contents: dict[str, Image | AttachedFile] = {}
    for row in rows:
        try:
            content = path_of(row.sha256).read_bytes() if str(row.pk) in shown or row.size <= MAX_INLINE_TEXT_BYTES else b""
        except OSError as error:
            log.warning("could not read attachment %s: %s", row.pk, error.strerror)
            contents[str(row.pk)] = AttachedFile(row.name, f"[{_file_label(row)} is no longer available]")
            continue
        if str(row.pk) in shown:
            contents[str(row.pk)] = Image(row.name, row.mime_type, content)
        else:
            contents[str(row.pk)] = AttachedFile(row.name, _describe_file(row, content, takes_images))
    return contents


def _file_label(row: Attachment) -> str:
    return f'Attached {"image" if row.is_image else "file"} "{row.name}" ({row.mime_type}, {format_size(row.size)})'


def _describe_file(row: Attachment, content: bytes, takes_images: bool) -> str:
    location = f", in the workspace as {row.saved_as}" if row.saved_as else ""
    if row.is_image:
        why = "too large or too old to be shown again" if takes_images else "this model takes no images"
        return f"[{_file_label(row)}{location}; not shown: {why}]"
    text = decode_text(content) if content else None
    if text is None:
        return f"[{_file_label(row)}{location}; its content is not shown here]"
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"[{_file_label(row)}{location}]\n{fence}\n{text}\n{fence}"


def _copy_all(rows: Sequence[Attachment], workspace: Path) -> dict[Attachment, str]:
    saved = {}
    for row in rows:
        try:
            saved[row] = copy_to_workspace(workspace, row)
        except OSError as error:  # a full disk, or the agent put something else there: keep the message anyway
            log.warning("could not copy attachment %s to the workspace: %s", row.pk, error.strerror)
            saved[row] = ""
    return saved


def copy_to_workspace(workspace: Path, row: Attachment) -> str:
    """Copy to uploads/<name> without overwriting other files, and return the path. Follows no links in the workspace."""
    stem, dot, ending = row.name.rpartition(".")
    other = f"{stem}-{row.sha256[:8]}{dot}{ending}" if dot else f"{row.name}-{row.sha256[:8]}"
    root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with tree.open_directory(root, [UPLOADS_DIR], create=True) as uploads:
            for name in (row.name, other):
                if _write_file(uploads, name, row):
                    return f"{UPLOADS_DIR}/{name}"
    finally:
        os.close(root)
    raise FileExistsError(17, "the file name and its alternative are both taken", row.name)


def _write_file(directory: int, name: str, row: Attachment) -> bool:
    """Write the file atomically. An existing file is left alone; it counts as written if it has the same content."""
    temporary = f".clawsite-{secrets.token_hex(8)}.tmp"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, 0o644, dir_fd=directory), "wb") as file:
            file.write(path_of(row.sha256).read_bytes())
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        try:
            content, _ = tree.read_at_most(directory, name, row.size)
        except OSError:
            return False
        return hashlib.sha256(content).hexdigest() == row.sha256
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
    return True


def _mark_saved(saved: Mapping[Attachment, str]) -> None:
    for row, path in saved.items():
        Attachment.objects.filter(pk=row.pk).update(saved_as=path)
