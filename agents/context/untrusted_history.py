"""What a run is told of the past of its session where that is not its owner's: words of limited runs, as material. Pure.

A run with all of its owner's tools reads what came by webhooks and by limited tokens before it. The envelope tells the model what
it is. That is a request to the model and not a wall: what it does then is the owner's own run, with the owner's tools.
"""

from collections.abc import Mapping
from dataclasses import replace

from sessions_app.origin import TOKEN_PREFIX_KEY, WEBHOOK_KEY
from sessions_app.transcript.messages import SUMMARY_KEY, HistoryEntry
from tools_app.core.untrusted_text import wrap_untrusted_text


def filter_entry(entry: HistoryEntry, reader: Mapping[str, str]) -> HistoryEntry | None:
    """An entry as a run of this origin reads it; None for what it is not told.

    What the model said in a limited run it said about others' words, and may be their words again. So it is not remembered as its
    own, but told in an envelope; and what tools brought there is not told at all. Of attached files only the names are told: a file
    would stand behind the envelope. What a webhook brought stands in an envelope already; not all that such a run is asked does.
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
        return f"a run for the webhook {hook!r}, which was about words of strangers,"
    return f"a program with the access token {entry.origin[TOKEN_PREFIX_KEY]}, which may use some tools only,"
