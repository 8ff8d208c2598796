"""What was said before, as the loop and the providers know it: stored entries become messages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agents.context.attachments import NOTHING, Brought, gather, shown_by_tool
from agents.context.compaction import prompts
from agents.context.compaction.summarize import Part
from agents.context.untrusted_history import recalled
from agents.llm.messages import AssistantMessage, AttachedFile, Image, Message, ToolCallAsked, ToolResultMessage, UserMessage
from agents.loop import turns_taken, with_every_result
from clawsite.infra.errors import InvalidRequest
from sessions_app.origin import origin_of, reader_of
from sessions_app.runs import client_tools
from sessions_app.runs.queue import Claimed
from sessions_app.transcript.messages import HISTORY_ENTRIES, HOLDS_OTHERS, OWN_ANSWERS, SUMMARY, PastEntry
from sessions_app.transcript.prompt_content import attachment_ids
from tools_app.core.untrusted_text import enveloped


@dataclass(frozen=True, slots=True)
class Past:
    messages: tuple[Message, ...]  # as the loop begins with them
    parts: tuple[Part, ...]  # the same one by one, without the summary
    summary: PastEntry | None  # of what was before them
    summary_holds_others: bool  # words from runs with limits that this one has not
    # Answers since a user last spoke that are not this run's; less those of this run that only the summary knows.
    turns_before: int
    is_whole: bool = True  # nothing that was ever said there is missing


async def recall(claimed: Claimed, entries: Sequence[PastEntry], workspace: Path, *, takes_images: bool) -> Past:
    """The history with everything that is attached to it."""
    reader = reader_of(claimed.options, claimed.session_key)
    is_whole = len(entries) < HISTORY_ENTRIES // 2 and not any(entry.origin or entry.role == SUMMARY for entry in entries)
    entries = [told for entry in entries if (told := recalled(entry, reader)) is not None]
    brought = await gather(claimed, entries, workspace, takes_images=takes_images)
    summary = next((entry for entry in entries if entry.role == SUMMARY), None)
    messages, turns = _history(claimed, entries, brought)
    turns -= summary.meta[OWN_ANSWERS] if summary else 0
    # Not by the reader, which may have a webhook's name from its session alone: what it writes is not told apart by that elsewhere.
    own = origin_of(claimed.options)
    parts = tuple(
        Part(
            message_of(entry, brought),
            entry.position,
            entry.message_id,
            opens=entry.own and entry.role == "user",
            of_others=_is_of_others(entry, own),
        )
        for entry in entries
        if entry is not summary
    )
    return Past(messages, parts, summary, summary is not None and _is_of_others(summary, own), turns, is_whole)


def _is_of_others(entry: PastEntry, own: Mapping[str, str]) -> bool:
    """Or holds their words, as a summary of an earlier summary does."""
    return (bool(entry.origin) and entry.origin != own) or (entry.role == SUMMARY and bool(entry.meta.get(HOLDS_OTHERS)))


def _history(claimed: Claimed, entries: Sequence[PastEntry], brought: Brought) -> tuple[tuple[Message, ...], int]:
    """What was said, and how many of the answers since a user last spoke are not this run's."""
    if not client_tools.results_in(claimed.options):
        return tuple(message_of(entry, brought) for entry in entries), 0
    before = [message_of(entry, brought) for entry in entries if not entry.own]
    history = with_every_result(before, [message_of(entry, brought) for entry in entries if entry.own])
    if history is None:
        raise InvalidRequest("the tool results came too late: the conversation has gone on without them")
    return tuple(history), turns_taken(before)


def told_summary(text: str, *, holds_others: bool) -> str:
    """As material, where it sums up others' words too."""
    return prompts.told(enveloped(text, prompts.MIXED) if holds_others else text)


def message_of(entry: PastEntry, brought: Brought = NOTHING) -> Message:
    """A stored entry as the loop knows it."""
    if entry.role == "user":
        parts = [brought[one] for one in attachment_ids(entry.content) if one in brought]
        images = tuple(part for part in parts if isinstance(part, Image))
        return UserMessage(entry.text, images, tuple(part for part in parts if isinstance(part, AttachedFile)))
    if entry.role == "notice":  # in brackets, since nobody has said it
        return UserMessage(f"[{entry.text}]")
    if entry.role == SUMMARY:
        return UserMessage(told_summary(entry.text, holds_others=bool(entry.meta.get(HOLDS_OTHERS))))
    if entry.role == "toolResult":
        told = entry.meta
        images = shown_by_tool(entry, brought)
        return ToolResultMessage(told["toolCallId"], told["toolName"], entry.text, bool(told.get("isError")), images)
    calls = tuple(
        ToolCallAsked(block["id"], block["name"], block["arguments"], block.get("error", ""))
        for block in entry.content
        if block["type"] == "toolCall"
    )
    thinking = "".join(block["thinking"] for block in entry.content if block["type"] == "thinking")
    return AssistantMessage(text=entry.text, thinking=thinking, tool_calls=calls)
