"""Store files sent inside a message, like uploaded ones. An identical file is reused instead of stored twice."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from clawsite.accounts.models import User
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from sessions_app.sessions import attachments


@dataclass(frozen=True, slots=True)
class InlineFile:
    """A file sent with the message itself, as base64."""

    name: str
    mime_type: str
    content: str = field(repr=False)


async def store_files(user: User, files: Sequence[str | InlineFile]) -> list[str]:
    """Store the files and return the IDs of all of them."""
    ids = []
    for file in files:
        if isinstance(file, InlineFile):
            stored = await db.read(_store_file, user, file)
            row = await db.write(attachments.register, user, stored, again=True)
            ids.append(str(row.pk))
        else:
            ids.append(file)
    return ids


def _store_file(user: User, file: InlineFile) -> attachments.StoredFile:
    content = file.content.rpartition(",")[2]  # some clients send a data: URL
    try:
        decoded = base64.b64decode(content, validate=True)
    except ValueError:  # non-ASCII characters don't raise binascii.Error
        raise InvalidRequest(_("the content of %(name)r is not valid base64") % {"name": file.name}) from None
    if not attachments.has_uploaded(user, decoded):
        attachments.check_quota(user)
    return attachments.store_file([decoded], file.name, file.mime_type, largest=attachments.MAX_INLINE_BYTES)
