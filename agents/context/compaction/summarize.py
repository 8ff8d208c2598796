"""Decide where to cut a history that is too long, and summarize the older part. Pure: the model is `ask`.

The newer part is kept verbatim, and a tool call is never separated from its result. The older part is summarized in stages: in
chunks that fit in a share of the model's context, then the chunks' summaries are merged. If a chunk is still too long, it is
split a few times; what still can't be summarized is left out, and the summary says so.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from agents.context import token_count
from agents.context.compaction import prompts
from agents.llm import summary_prompt
from agents.llm.base import FailureKind, ProviderError
from agents.llm.messages import AssistantMessage, Message, ToolResultMessage, UserMessage
from tools_app.core.untrusted_markers import remove_untrusted_text

SummaryModel = Callable[[str], Awaitable[str]]  # prompt -> summary; raises ProviderError

CHUNK_SHARE = 0.4  # of the context per chunk; estimates may be 20% too low, and instructions and answer need room too
MIN_CHUNK_TOKENS = 500  # smaller chunks would be mostly instructions
MAX_SPLIT_RETRIES = 3  # times a rejected chunk is halved
MAX_CALLS = 32  # model calls per compaction
MAX_SUMMARY_LENGTH = 16_000  # characters
MAX_QUOTE_LENGTH, MAX_QUOTES = 200, 20  # of user messages in a chunk that could not be summarized
TOO_LONG_REASON = "too long for the model"
# Failures after which a chunk is split. Others are the provider's fault and say nothing about the length.
TOO_LONG_KINDS = (FailureKind.CONTEXT_OVERFLOW, FailureKind.EMPTY)


@dataclass(frozen=True, slots=True)
class HistoryItem:
    """A message with its transcript position. The message that `opens` the current run is never cut."""

    message: Message
    position: int
    id: str = ""
    opens: bool = False
    is_untrusted: bool = False  # from a run with limits that the current run doesn't have


@dataclass(frozen=True, slots=True)
class KeepLimits:
    """How much to keep verbatim: a number of tokens, and optionally a maximum number of turns or messages."""

    tokens: int
    turns: int | None = None
    messages: int | None = None


def find_cut_points(parts: Sequence[HistoryItem]) -> list[int]:
    """Return indexes before which the history can be cut (the last may be the end), never between a call and its result.

    The model's history is ordered differently than the transcript if a message arrived during a run. The cut is stored as a
    transcript position, so it must be a valid cut in both orders.
    """
    highest = list(accumulate((part.position for part in parts), max))
    lowest = list(accumulate((part.position for part in reversed(parts)), min))[::-1]
    points, unanswered = [], set[str]()
    for index, part in enumerate(parts):
        match part.message:
            case AssistantMessage(tool_calls=calls):
                if index:
                    points.append(index)  # calls still open at the next answer will never get a result
                unanswered = {call.id for call in calls}
            case ToolResultMessage(call_id=call_id):
                unanswered.discard(call_id)
        if not unanswered:
            points.append(index + 1)
    return [at for at in dict.fromkeys(points) if at == len(parts) or highest[at - 1] < lowest[at]]


def choose_cut(parts: Sequence[HistoryItem], keep: KeepLimits) -> int:
    """Return how many of the oldest parts to summarize so that the rest is within `keep`; 0 if nothing would be gained.

    Keeps whole turns if possible, otherwise whole answers with their results, at least the last one.
    """
    sizes = [token_count.count_message_tokens(part.message) for part in parts]
    opening = [index for index, part in enumerate(parts) if part.opens]

    def fits(at: int) -> bool:
        stays = [*(index for index in opening if index < at), *range(at, len(parts))]
        turns = sum(isinstance(parts[index].message, UserMessage) for index in stays)
        return (
            sum(sizes[index] for index in stays) <= keep.tokens
            and (keep.turns is None or turns <= keep.turns)
            and (keep.messages is None or len(stays) <= keep.messages)
        )

    # Something must stay: the prompt of the current run, or the last messages.
    possible = [at for at in find_cut_points(parts) if at < len(parts) or opening]
    turns = [at for at in possible if at < len(parts) and isinstance(parts[at].message, UserMessage)]
    chosen = next((at for at in [0, *turns] if fits(at)), None)
    if chosen is None:
        chosen = next((at for at in possible if fits(at)), possible[-1] if possible else 0)
    return chosen if any(index not in opening for index in range(chosen)) else 0


@dataclass(frozen=True, slots=True)
class Summary:
    text: str
    left_out: int = 0  # messages that could not be summarized


async def summarize_messages(
    messages: Sequence[Message], *, before: str, instructions: str, ask: SummaryModel, window: int
) -> Summary:
    """Summarize the previous summary `before` and the messages. Raises ProviderErrors that are not about length."""
    room = max(MIN_CHUNK_TOKENS, int(window * CHUNK_SHARE))
    work = _Summarizer(ask, instructions, room)
    pieces = [_Chunk(prompts.render_messages(unit), len(unit)) for unit in _split_units(messages)]
    if before:
        pieces.insert(0, _Chunk(f"{summary_prompt.PREVIOUS_SUMMARY_HEADING}\n{before}", 0))
    chunks = _pack_chunks(pieces, room)
    tasks = [prompts.PART_PROMPT.format(number=n, count=len(chunks)) if len(chunks) > 1 else "" for n in range(1, len(chunks) + 1)]
    summaries = [await work.summary(chunk, task, MAX_SPLIT_RETRIES) for chunk, task in zip(chunks, tasks, strict=True)]
    text = prompts.shorten_middle(await work.merge(summaries, MAX_SPLIT_RETRIES), MAX_SUMMARY_LENGTH, MAX_SUMMARY_LENGTH // 4)
    if work.left_out:  # added here, because the model may drop it when merging
        text = f"{_omission_note(work.left_out, TOO_LONG_REASON)}\n\n{text}"
    return Summary(text, work.left_out)


def summarize_without_model(messages: Sequence[Message], before: str, why: str) -> Summary:
    """Build a placeholder that says what is missing and quotes user messages, without asking a model."""
    count = sum(not isinstance(message, ToolResultMessage) for message in messages)
    requests = [message for message in messages if isinstance(message, UserMessage)]
    text = "\n".join(part for part in (before, _omission_note(count, why), _quote_requests(requests)) if part)
    return Summary(prompts.shorten_middle(text, MAX_SUMMARY_LENGTH, MAX_SUMMARY_LENGTH // 4), count)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Text of messages that belong together; or a summary, which has count 0 and is never shortened to its first line."""

    text: str
    count: int


class _Summarizer:
    """One compaction: limits its model calls and counts omitted messages."""

    def __init__(self, ask: SummaryModel, instructions: str, room: int) -> None:
        self._ask, self._instructions, self._room = ask, instructions, room
        self._calls = 0
        self.left_out = 0

    async def summary(self, pieces: Sequence[_Chunk], task: str, tries: int) -> str:
        """Summarize one chunk, or its halves if it is rejected as too long."""
        texts = [piece.text for piece in pieces]
        answer = await self._ask_model(texts, task)
        if answer is not None:
            return answer
        if tries and len(pieces) > 1:
            half = len(pieces) // 2
            halves = [await self.summary(some, task, tries - 1) for some in (pieces[:half], pieces[half:])]
            return await self.merge(halves, tries - 1)
        if tries and pieces[0].count and len(texts[0]) > 2 * MAX_QUOTE_LENGTH:
            size = len(texts[0]) // 2
            return await self.summary([_Chunk(prompts.shorten_middle(texts[0], size, size // 3), pieces[0].count)], task, tries - 1)
        count = sum(piece.count for piece in pieces)
        self.left_out += count
        lines = [_first_line(piece.text) if piece.count else piece.text for piece in pieces[:MAX_QUOTES]]
        return "\n".join([_omission_note(count, TOO_LONG_REASON), *lines])

    async def merge(self, summaries: Sequence[str], tries: int) -> str:
        """Merge several summaries into one, in as many rounds as needed; concatenate them if the model rejects them."""
        while len(summaries) > 1:
            groups = _pack_chunks([_Chunk(text, 0) for text in summaries], self._room)
            if not tries or len(groups) == len(summaries):
                return "\n\n".join(summaries)
            tries -= 1
            merged = []
            for group in groups:
                texts = [piece.text for piece in group]
                answer = await self._ask_model(texts, prompts.MERGE_PROMPT) if len(texts) > 1 else texts[0]
                merged.append("\n\n".join(texts) if answer is None else answer)
            summaries = merged
        return summaries[0] if summaries else ""

    async def _ask_model(self, texts: Sequence[str], task: str) -> str | None:
        """Return None if the request is too long or the call limit is reached."""
        if self._calls >= MAX_CALLS:
            return None
        self._calls += 1
        try:
            answer = await self._ask(prompts.build_summary_request(texts, task=task, instructions=self._instructions))
        except ProviderError as error:
            if error.kind in TOO_LONG_KINDS:
                return None
            raise
        return answer.strip() or None


def _split_units(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """Split into the smallest groups of messages that must stay together."""
    parts = [HistoryItem(message, index) for index, message in enumerate(messages)]
    ends = find_cut_points(parts)
    ends = ends if ends and ends[-1] == len(messages) else [*ends, len(messages)]
    return [messages[begin:end] for begin, end in zip([0, *ends], ends, strict=False) if end > begin]


def _pack_chunks(pieces: Sequence[_Chunk], room: int) -> list[list[_Chunk]]:
    """Group adjacent pieces into chunks that fit; a piece that is too large alone is shortened."""
    chunks: list[list[_Chunk]] = []
    left = 0
    for piece in pieces:
        size = token_count.count_text_tokens(piece.text)
        if size > room:
            longest = len(piece.text) * room // size
            piece, size = _Chunk(prompts.shorten_middle(piece.text, longest, longest // 3), piece.count), room
        if not chunks or size > left:
            chunks.append([])
            left = room
        chunks[-1].append(piece)
        left -= size
    return chunks


def _omission_note(count: int, why: str) -> str:
    return f"[{count} messages are missing here because they could not be summarized: {why}.]" if count else ""


def _quote_requests(requests: Sequence[UserMessage]) -> str:
    lines = [f"- {line}" for message in requests[-MAX_QUOTES:] if (line := _first_line(message.text))]
    return "\n".join(["The user wrote:", *lines]) if lines else ""


def _first_line(text: str) -> str:
    line = " ".join(remove_untrusted_text(text).split())  # truncated untrusted text would lose its envelope
    return line if len(line) <= MAX_QUOTE_LENGTH else line[: MAX_QUOTE_LENGTH - 1] + "…"
