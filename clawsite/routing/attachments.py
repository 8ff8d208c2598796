"""Files that came inside a message: stored like those uploaded before. The same one again is found, not stored twice."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field

from clawsite.accounts.models import User
from clawsite.infra import db
from clawsite.infra.errors import InvalidRequest
from sessions_app.sessions import attachments


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file that came with the message itself, as base64."""

    name: str
    mime_type: str
    content: str = field(repr=False)


async def kept(user: User, files: Sequence[str | GivenFile]) -> list[str]:
    """The ids of all of them."""
    ids = []
    for file in files:
        if isinstance(file, GivenFile):
            stored = await db.read(_stored, user, file)
            row = await db.write(attachments.register, user, stored, again=True)
            ids.append(str(row.pk))
        else:
            ids.append(file)
    return ids


def _stored(user: User, file: GivenFile) -> attachments.Stored:
    _, _, content = file.content.rpartition(",")  # some clients send a data: address
    try:
        decoded = base64.b64decode(content, validate=True)
    except ValueError:  # letters beyond ASCII are no binascii.Error
        raise InvalidRequest(f"the content of {file.name!r} is not base64") from None
    if not attachments.is_known(user, decoded):
        attachments.check_room(user)
    return attachments.store([decoded], file.name, file.mime_type, largest=attachments.LARGEST_INLINE)
