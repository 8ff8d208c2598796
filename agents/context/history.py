"""Load the stored transcript entries of a session as messages for the loop and the providers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.context.attachments import NO_ATTACHMENTS, AttachedContent, load_attachments, tool_result_images
from agents.context.compaction import prompts
from agents.context.compaction.summarize import HistoryItem
from agents.context.untrusted_history import filter_entry
from agents.llm.messages import AssistantMessage, AttachedFile, Image, Message, ToolCallRequest, ToolResultMessage, UserMessage
from agents.loop import count_turns, fill_missing_results
from clawsite.infra.errors import InvalidRequest
from sessions_app.run_request import ToolResults, origin_of_run, reader_origin
from sessions_app.runs.queue import ClaimedRun
from sessions_app.transcript.messages import INCLUDES_OTHERS_KEY, MAX_HISTORY_ENTRIES, OWN_ANSWERS_KEY, SUMMARY_KEY, HistoryEntry
from sessions_app.transcript.prompt_content import list_attachment_ids
from tools_app.core.untrusted_text import wrap_untrusted_text


@dataclass(frozen=True, slots=True)
class History:
    messages: tuple[Message, ...]  # what the loop starts with
    parts: tuple[HistoryItem, ...]  # the same messages with positions, without the summary
    summary: HistoryEntry | None  # of the messages before them
    summary_is_untrusted: bool  # includes text from runs with limits that this run doesn't have
    # Number of other runs' answers since the last user message, minus this run's answers that are only in the summary.
    turns_before: int
    is_complete: bool = True  # contains the session's whole history


async def load_history(claimed: ClaimedRun, entries: Sequence[HistoryEntry], workspace: Path, *, takes_images: bool) -> History:
    """Build the history with all attachments."""
    reader = reader_origin(claimed.request, claimed.session_key)
    is_whole = len(entries) < MAX_HISTORY_ENTRIES // 2 and not any(entry.origin or entry.role == SUMMARY_KEY for entry in entries)
    entries = [filtered for entry in entries if (filtered := filter_entry(entry, reader)) is not None]
    contents = await load_attachments(claimed, entries, workspace, takes_images=takes_images)
    summary = next((entry for entry in entries if entry.role == SUMMARY_KEY), None)
    all_messages = [to_message(entry, contents) for entry in entries]
    messages, turns = _arrange_messages(claimed, entries, all_messages)
    turns -= summary.meta[OWN_ANSWERS_KEY] if summary else 0
    # Not `reader`: that may include a webhook only because of its session, which is not recorded with what the run writes.
    own = origin_of_run(claimed.request)
    parts = tuple(
        HistoryItem(
            message,
            entry.position,
            entry.message_id,
            opens=entry.own and entry.role == "user",
            is_untrusted=_is_untrusted(entry, own),
        )
        for entry, message in zip(entries, all_messages, strict=True)
        if entry is not summary
    )
    return History(messages, parts, summary, summary is not None and _is_untrusted(summary, own), turns, is_whole)


def _is_untrusted(entry: HistoryEntry, own: Mapping[str, str]) -> bool:
    """Whether the entry comes from a run of another origin, or is a summary that includes such text."""
    return (bool(entry.origin) and entry.origin != own) or (entry.role == SUMMARY_KEY and bool(entry.meta.get(INCLUDES_OTHERS_KEY)))


def _arrange_messages(
    claimed: ClaimedRun, entries: Sequence[HistoryEntry], messages: Sequence[Message]
) -> tuple[tuple[Message, ...], int]:
    """Return the messages in the loop's order, and how many answers since the last user message are not this run's."""
    if not isinstance(claimed.request.kind, ToolResults):
        return tuple(messages), 0
    before = [message for entry, message in zip(entries, messages, strict=True) if not entry.own]
    own = [message for entry, message in zip(entries, messages, strict=True) if entry.own]
    history = fill_missing_results(before, own)
    if history is None:
        raise InvalidRequest("the tool results came too late: the session has continued without them")
    return tuple(history), count_turns(before)


def format_summary(text: str, *, holds_others: bool) -> str:
    """Add the heading, and an envelope if the summary includes text by others."""
    return prompts.add_summary_heading(wrap_untrusted_text(text, prompts.UNTRUSTED_SUMMARY_SOURCE) if holds_others else text)


def to_message(entry: HistoryEntry, contents: AttachedContent = NO_ATTACHMENTS) -> Message:
    """Convert a stored entry to a message."""
    if entry.role == "user":
        parts = [contents[one] for one in list_attachment_ids(entry.content) if one in contents]
        images = tuple(part for part in parts if isinstance(part, Image))
        return UserMessage(entry.text, images, tuple(part for part in parts if isinstance(part, AttachedFile)))
    if entry.role == "notice":  # in brackets, because no user wrote it
        return UserMessage(f"[{entry.text}]")
    if entry.role == SUMMARY_KEY:
        return UserMessage(format_summary(entry.text, holds_others=bool(entry.meta.get(INCLUDES_OTHERS_KEY))))
    if entry.role == "toolResult":
        meta = entry.meta
        images = tool_result_images(entry, contents)
        return ToolResultMessage(meta["toolCallId"], meta["toolName"], entry.text, bool(meta.get("isError")), images)
    calls = tuple(
        ToolCallRequest(block["id"], block["name"], block["arguments"], block.get("error", ""))
        for block in entry.content
        if block["type"] == "toolCall"
    )
    thinking = "".join(block["thinking"] for block in entry.content if block["type"] == "thinking")
    return AssistantMessage(text=entry.text, thinking=thinking, tool_calls=calls)
