"""Wrap history entries of limited runs as untrusted content for runs without those limits. Pure.

A run with all of its owner's tools reads earlier messages from webhooks and limited tokens. The envelope tells the model what
they are. This is advice to the model, not enforcement: the run still has all of the owner's tools.
"""

from collections.abc import Mapping
from dataclasses import replace

from sessions_app.origin import TOKEN_PREFIX_KEY, WEBHOOK_KEY
from sessions_app.transcript.messages import SUMMARY_KEY, HistoryEntry
from tools_app.core.untrusted_text import wrap_untrusted_text


def filter_entry(entry: HistoryEntry, reader: Mapping[str, str]) -> HistoryEntry | None:
    """Return an entry as a run of this origin sees it, or None if it doesn't see it.

    Answers of a limited run may repeat text written by others, so they are shown in an envelope instead of as the model's own.
    Tool results of such runs are dropped. Attached files are shown by name only, because their content would follow outside the
    envelope. Webhook payloads already have an envelope, but other prompts of such a run don't.
    """
    if not entry.origin or entry.origin == reader or entry.role in ("notice", SUMMARY_KEY):
        return entry
    if entry.role == "user":
        return replace(entry, text=wrap_untrusted_text(_text_with_file_names(entry), _author_label(entry)), content=[])
    if entry.role == "toolResult" or not entry.text:
        return None
    to = f"in {_author_label(entry)}" if WEBHOOK_KEY in entry.origin else f"to {_author_label(entry)}"
    return replace(entry, role="user", text=wrap_untrusted_text(entry.text, f"your answer {to}"), content=[], meta={})


def _text_with_file_names(entry: HistoryEntry) -> str:
    names = [str(block.get("name", "")) for block in entry.content if "attachmentId" in block]
    return "\n\n".join(filter(None, (entry.text, *(f"[Attached file {name!r}; its content is not shown here]" for name in names))))


def _author_label(entry: HistoryEntry) -> str:
    if hook := entry.origin.get(WEBHOOK_KEY):
        return f"a run for the webhook {hook!r}, which handled untrusted content,"
    return f"a program with the access token {entry.origin[TOKEN_PREFIX_KEY]}, which can use only some tools,"
