"""Attachments: stored on disk by hash, claimed by the message that sends them, deleted if none does.

Bytes are written before the row, so a row always has its file. Every lookup starts from `for_user()`.
"""

import hashlib
import logging
import os
import secrets
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import clock
from clawsite.infra.errors import ClawError, InvalidRequest, NotFound
from sessions_app.models import Attachment, Session
from sessions_app.sessions.file_types import clean_file_name, clean_mime_type, declared_image_type, detect_image_type, format_size
from sessions_app.transcript.prompt_content import Block

log = logging.getLogger(__name__)

MAX_FILE_BYTES = 20 << 20
MAX_INLINE_BYTES = 5_000_000  # decoded, inside a frame; same limit as OpenClaw
MAX_PER_MESSAGE = 10
MAX_UNSENT = 100  # per user: at most 2 GB of unsent files
UNSENT_LIFETIME_HOURS = 24


class AttachmentTooLarge(ClawError):
    http_status = 413


class TooManyAttachments(ClawError):
    http_status = 429


class WrongFileType(ClawError):
    http_status = 415


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Bytes on disk and their type; not owned by anyone yet."""

    sha256: str
    size: int
    name: str
    mime_type: str
    is_image: bool


def store_file(chunks: Iterable[bytes], name: str, mime_type: str = "", *, largest: int = MAX_FILE_BYTES) -> StoredFile:
    """Write a file under its hash, atomically and once: identical bytes share one file."""
    name = clean_file_name(name)
    temporary = _directory() / f"{secrets.token_hex(8)}.part"
    digest, size, head = hashlib.sha256(), 0, b""
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for chunk in chunks:
                size += len(chunk)
                if size > largest:
                    raise AttachmentTooLarge(
                        _("%(name)s exceeds the %(most)s attachment limit.") % {"name": name, "most": format_size(largest)}
                    )
                head = head or chunk[:16]
                digest.update(chunk)
                file.write(chunk)
        if not size:
            raise InvalidRequest(_("%(name)s is empty.") % {"name": name})
        detected = detect_image_type(head)
        if not detected and (promised := declared_image_type(name, mime_type)):
            kind = promised.removeprefix("image/").upper()
            raise WrongFileType(_("%(name)s is not a valid %(kind)s image.") % {"name": name, "kind": kind})
        sha256 = digest.hexdigest()
        target = path_of(sha256)
        target.parent.mkdir(mode=0o700, exist_ok=True)
        os.replace(temporary, target)  # even if it exists: the new mtime protects it from the sweep
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
    return StoredFile(sha256, size, name, detected or clean_mime_type(mime_type), bool(detected))


def path_of(sha256: str) -> Path:
    return _directory() / sha256[:2] / sha256


def _directory() -> Path:
    directory = Path(settings.HOME) / "attachments"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def check_quota(user: User) -> None:
    """Check the limit, before bytes are written and again before the row is created."""
    if Attachment.objects.filter(owner=user, session=None).count() >= MAX_UNSENT:
        raise TooManyAttachments(
            _("You have %d unsent files. Send some, or wait: unsent files are deleted after a day.") % MAX_UNSENT
        )


def has_uploaded(user: User, content: bytes) -> bool:
    return Attachment.objects.filter(owner=user, sha256=hashlib.sha256(content).hexdigest()).exists()


@transaction.atomic
def register(user: User, stored: StoredFile, *, again: bool = False) -> Attachment:
    """Create the row for stored bytes. `again` returns the row of an earlier attempt to send the same file."""
    facts = {"owner": user, "name": stored.name, "sha256": stored.sha256}
    if again and (existing := Attachment.objects.filter(**facts).order_by("created_at").first()):
        return existing
    check_quota(user)
    return Attachment.objects.create(**facts, mime_type=stored.mime_type, is_image=stored.is_image, size=stored.size)


def find(user: User, attachment_id: str | uuid.UUID) -> Attachment:
    return list_visible(user, [str(attachment_id)])[0]


def list_visible(user: User, ids: Sequence[str]) -> list[Attachment]:
    """Return attachments in the requested order; all must exist."""
    try:
        pks = [uuid.UUID(one) for one in ids]
    except ValueError:
        raise NotFound(_("Attachment not found.")) from None
    attachments = Attachment.objects.for_user(user).in_bulk(pks)
    if missing := [one for one in pks if one not in attachments]:
        raise NotFound(_("Attachment not found: %(id)s. Unsent files are deleted after a day.") % {"id": missing[0]})
    return [attachments[one] for one in pks]


@transaction.atomic
def claim_attachments(user: User, session: Session, ids: Sequence[str]) -> list[Block]:
    """Return a message's attachments as blocks for its run; everyone who sees the session can then see them.

    One already sent in another session stays there and its row is copied, so its ID isn't exposed to other people.
    """
    if len(ids) > MAX_PER_MESSAGE:
        raise InvalidRequest(_("A message can have at most %(most)d attachments.") % {"most": MAX_PER_MESSAGE})
    blocks = []
    for attachment in list_visible(user, list(dict.fromkeys(ids))):
        if attachment.session_id is None:
            mine = Attachment.objects.filter(pk=attachment.pk, session=None).update(session=session.id)
            attachment.session_id = session.id if mine else None  # sent elsewhere at the same time
        if attachment.session_id != session.id:
            attachment = _copy_attachment(user, session, attachment)
        blocks.append(to_block(attachment))
    return blocks


def copy_attachments(user: User, session: Session, ids: Sequence[str]) -> dict[str, str]:
    """Map each ID to its copy in the session, for those the user can see. Others, as imported transcripts may name, are skipped."""
    pks = [one for one in ids if _is_id(one)]
    attachments = Attachment.objects.for_user(user).filter(pk__in=pks) if pks else Attachment.objects.none()
    return {str(attachment.pk): str(_copy_attachment(user, session, attachment).pk) for attachment in attachments}


def _is_id(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _copy_attachment(user: User, session: Session, attachment: Attachment) -> Attachment:
    """Return the row of the same file in that session; there may be several because it can be sent twice."""
    same = Attachment.objects.filter(session_id=session.id, sha256=attachment.sha256, name=attachment.name)
    return same.order_by("created_at").first() or Attachment.objects.create(
        session_id=session.id,
        sha256=attachment.sha256,
        name=attachment.name,
        owner=user,
        mime_type=attachment.mime_type,
        is_image=attachment.is_image,
        size=attachment.size,
    )


def record_tool_file(session_id: uuid.UUID, owner_id: int, stored: StoredFile) -> Attachment:
    """Return the row of a file created by a tool in that session; repeated calls share one row."""
    facts = {"session_id": session_id, "sha256": stored.sha256, "name": stored.name}
    defaults = {"owner_id": owner_id, "mime_type": stored.mime_type, "is_image": stored.is_image, "size": stored.size}
    return Attachment.objects.filter(**facts).order_by("created_at").first() or Attachment.objects.create(**facts, **defaults)


def to_block(attachment: Attachment) -> Block:
    return {
        "type": "image" if attachment.is_image else "file",
        "attachmentId": str(attachment.pk),
        "mimeType": attachment.mime_type,
        "name": attachment.name,
        "size": attachment.size,
        "sha256": attachment.sha256,
    }


def delete_unsent(*, hours: float = UNSENT_LIFETIME_HOURS) -> int:
    """Delete unsent attachments; the next sweep deletes the bytes."""
    return Attachment.objects.filter(session=None, created_at__lt=clock.now() - timedelta(hours=hours)).delete()[0]


def sweep_files(*, hours: float = UNSENT_LIFETIME_HOURS) -> int:
    """Delete old files without a row and return their number. Writes no rows, so it may be slow."""
    before = time.time() - hours * 3600
    deleted = 0
    for path in _directory().iterdir():
        if path.is_dir():
            named = set(Attachment.objects.filter(sha256__startswith=path.name).values_list("sha256", flat=True))
            deleted += sum(_delete_if_unused(file, before) for file in path.iterdir() if file.name not in named)
        elif path.stat().st_mtime < before:  # a partial file, left by a process that died while writing
            path.unlink(missing_ok=True)
    if deleted:
        log.info("deleted %d unused attachment files", deleted)
    return deleted


def _delete_if_unused(file: Path, before: float) -> bool:
    """Move the file aside, then check again, so that a concurrent upload of the same bytes isn't lost."""
    path, aside = path_of(file.stem), path_of(file.stem).with_suffix(".aside")
    if file != aside:
        if file.stat().st_mtime >= before:
            return False
        os.replace(file, aside)
    # A newer mtime: it was rewritten between the check and the move.
    if aside.stat().st_mtime >= before or Attachment.objects.filter(sha256=file.stem).exists():
        os.replace(aside, path)
        return False
    aside.unlink()
    return True
