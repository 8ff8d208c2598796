"""History sent by a program that keeps its own history, stored as entries of the session created for the request."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from clawsite.accounts.models import User
from clawsite.routing.attachments import InlineFile, store_files
from sessions_app.events.journal import NewEntry, new_message_id
from sessions_app.models import Session
from sessions_app.origin import TokenLimits
from sessions_app.run_request import RunRequest, origin_of_run
from sessions_app.runs.client_tools import build_result_entry
from sessions_app.sessions import attachments
from sessions_app.transcript.prompt_content import visible_attachments


@dataclass(frozen=True, slots=True)
class SuppliedMessage:
    """`calls` are the calls {id, name, arguments} of an assistant message; `call_id` and `name` identify a tool result's call."""

    role: Literal["user", "assistant", "tool"]
    text: str = ""
    files: Sequence[str | InlineFile] = ()
    calls: Sequence[dict[str, Any]] = ()
    call_id: str = ""
    name: str = ""


async def store_message_files(user: User, past: Sequence[SuppliedMessage]) -> list[SuppliedMessage]:
    return [replace(message, files=await store_files(user, message.files)) if message.files else message for message in past]


def to_entries(user: User, session: Session, past: Sequence[SuppliedMessage]) -> list[NewEntry]:
    origin = origin_of_run(RunRequest(token_limits=TokenLimits.parse(user.key_limits)))
    entries = [_to_entry(user, session, message) for message in past]
    return [replace(entry, meta={**entry.meta, **origin}) for entry in entries] if origin else entries


def _to_entry(user: User, session: Session, message: SuppliedMessage) -> NewEntry:
    if message.role == "tool":
        return build_result_entry(message.call_id, message.name, message.text)
    content: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
    if message.files:
        blocks = attachments.claim_attachments(user, session, [file for file in message.files if isinstance(file, str)])
        content += visible_attachments(blocks)
    content += [{"type": "toolCall", **call} for call in message.calls]
    return NewEntry("message", message.role, content, message.text, new_message_id())
