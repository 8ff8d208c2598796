"""A conversation that has grown too long: where to cut it, and a summary of what is cut off. Pure: the model is `ask`.

What stays, stays word for word, and a tool call is never parted from its result. What goes is summarised in stages: in parts of
a share of the model's context, then the parts' summaries into one. Where even that is too long the pieces get smaller, a few
times; what still cannot be summarised is left out, and the summary says so.
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

SummaryModel = Callable[[str], Awaitable[str]]  # a request in, a summary out; ProviderError when there is none

CHUNK_SHARE = 0.4  # of the context for one part; estimates may be a fifth too low, and instructions and answer need room too
MIN_CHUNK_TOKENS = 500  # tokens: smaller parts would be all instructions
MAX_SPLIT_RETRIES = 3  # halvings of a part that is refused
MAX_CALLS = 32  # of one compaction, whatever happens
MAX_SUMMARY_LENGTH = 16_000  # characters
MAX_QUOTE_LENGTH, MAX_QUOTES = 200, 20  # of what users said in a part that could not be summarised
TOO_LONG_REASON = "too long for the model"
# Why a part is tried again in smaller pieces. Any other failure is the provider's, and says nothing about the length.
TOO_LONG_KINDS = (FailureKind.CONTEXT_OVERFLOW, FailureKind.EMPTY)


@dataclass(frozen=True, slots=True)
class HistoryItem:
    """A message with its place in the transcript. What `opens` the run at work stays with the model whatever is cut."""

    message: Message
    position: int
    id: str = ""
    opens: bool = False
    is_untrusted: bool = False  # from a run with limits that the one at work has not


@dataclass(frozen=True, slots=True)
class KeepLimits:
    """What may stay word for word: so many tokens, and not more turns or messages than these, where they are limited."""

    tokens: int
    turns: int | None = None
    messages: int | None = None


def find_cut_points(parts: Sequence[HistoryItem]) -> list[int]:
    """Where it may be cut: before these indexes (the last may be the end). Never between a call and its result.

    The order of the model's history differs from the transcript's where somebody spoke during a run. The cut is remembered as a
    place in the transcript, so it must be one in both.
    """
    highest = list(accumulate((part.position for part in parts), max))
    lowest = list(accumulate((part.position for part in reversed(parts)), min))[::-1]
    found, unanswered = [], set[str]()
    for index, part in enumerate(parts):
        match part.message:
            case AssistantMessage(tool_calls=calls):
                if index:
                    found.append(index)  # whatever is unanswered before another answer stays so
                unanswered = {call.id for call in calls}
            case ToolResultMessage(call_id=call_id):
                unanswered.discard(call_id)
        if not unanswered:
            found.append(index + 1)
    return [at for at in dict.fromkeys(found) if at == len(parts) or highest[at - 1] < lowest[at]]


def choose_cut(parts: Sequence[HistoryItem], keep: KeepLimits) -> int:
    """How many of the oldest parts to summarise, so that what stays is within `keep`; 0 when there is nothing to gain.

    Whole turns are kept if that is possible, else whole answers with their results, at least the last of them.
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

    # Something must stay: the prompt of the run at work, or the last messages.
    possible = [at for at in find_cut_points(parts) if at < len(parts) or opening]
    turns = [at for at in possible if at < len(parts) and isinstance(parts[at].message, UserMessage)]
    chosen = next((at for at in [0, *turns] if fits(at)), None)
    if chosen is None:
        chosen = next((at for at in possible if fits(at)), possible[-1] if possible else 0)
    return chosen if any(index not in opening for index in range(chosen)) else 0


@dataclass(frozen=True, slots=True)
class Summary:
    text: str
    left_out: int = 0  # messages that could not be summarised


async def summarize_messages(messages: Sequence[Message], *, before: str, wish: str, ask: SummaryModel, window: int) -> Summary:
    """What the messages say, behind what a summary `before` them said. Raises the ProviderError that is not about the length."""
    room = max(MIN_CHUNK_TOKENS, int(window * CHUNK_SHARE))
    work = _Summarizer(ask, wish, room)
    pieces = [_Chunk(prompts.render_messages(unit), len(unit)) for unit in _split_units(messages)]
    if before:
        pieces.insert(0, _Chunk(f"{summary_prompt.PREVIOUS_SUMMARY_HEADING}\n{before}", 0))
    chunks = _pack_chunks(pieces, room)
    tasks = [prompts.PART_PROMPT.format(number=n, count=len(chunks)) if len(chunks) > 1 else "" for n in range(1, len(chunks) + 1)]
    summaries = [await work.summary(chunk, task, MAX_SPLIT_RETRIES) for chunk, task in zip(chunks, tasks, strict=True)]
    text = prompts.shorten_middle(await work.merge(summaries, MAX_SPLIT_RETRIES), MAX_SUMMARY_LENGTH, MAX_SUMMARY_LENGTH // 4)
    if work.left_out:  # said by us, since a model that merged the parts may have dropped it
        text = f"{_omission_note(work.left_out, TOO_LONG_REASON)}\n\n{text}"
    return Summary(text, work.left_out)


def summarize_without_model(messages: Sequence[Message], before: str, why: str) -> Summary:
    """No model is asked: the words say that something is missing, and what users had asked for."""
    count = sum(not isinstance(message, ToolResultMessage) for message in messages)
    asked = [message for message in messages if isinstance(message, UserMessage)]
    words = "\n".join(part for part in (before, _omission_note(count, why), _quote_requests(asked)) if part)
    return Summary(prompts.shorten_middle(words, MAX_SUMMARY_LENGTH, MAX_SUMMARY_LENGTH // 4), count)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Messages that are not parted, as text; or a summary, which counts none and is never shortened to its first words."""

    text: str
    count: int


class _Summarizer:
    """One compaction: counts its calls, and remembers what had to be left out."""

    def __init__(self, ask: SummaryModel, wish: str, room: int) -> None:
        self._ask, self._instructions, self._room = ask, wish, room
        self._calls = 0
        self.left_out = 0

    async def summary(self, pieces: Sequence[_Chunk], task: str, tries: int) -> str:
        """Of one part; of its halves if it is refused as too long."""
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
        words = [_first_line(piece.text) if piece.count else piece.text for piece in pieces[:MAX_QUOTES]]
        return "\n".join([_omission_note(count, TOO_LONG_REASON), *words])

    async def merge(self, summaries: Sequence[str], tries: int) -> str:
        """One summary of several, in as many rounds as they need; put side by side where that is refused."""
        while len(summaries) > 1:
            groups = _pack_chunks([_Chunk(text, 0) for text in summaries], self._room)
            if not tries or len(groups) == len(summaries):
                return "\n\n".join(summaries)
            tries -= 1
            made = []
            for group in groups:
                texts = [piece.text for piece in group]
                answer = await self._ask_model(texts, prompts.MERGE_PROMPT) if len(texts) > 1 else texts[0]
                made.append("\n\n".join(texts) if answer is None else answer)
            summaries = made
        return summaries[0] if summaries else ""

    async def _ask_model(self, texts: Sequence[str], task: str) -> str | None:
        """None: it is too long, or too much was asked already."""
        if self._calls >= MAX_CALLS:
            return None
        self._calls += 1
        try:
            answer = await self._ask(prompts.build_summary_request(texts, task=task, wish=self._instructions))
        except ProviderError as error:
            if error.kind in TOO_LONG_KINDS:
                return None
            raise
        return answer.strip() or None


def _split_units(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """The smallest runs of messages that are not parted."""
    parts = [HistoryItem(message, index) for index, message in enumerate(messages)]
    ends = find_cut_points(parts)
    ends = ends if ends and ends[-1] == len(messages) else [*ends, len(messages)]
    return [messages[begin:end] for begin, end in zip([0, *ends], ends, strict=False) if end > begin]


def _pack_chunks(pieces: Sequence[_Chunk], room: int) -> list[list[_Chunk]]:
    """Neighbours together, as many as the room holds; one that is too large by itself is shortened to it."""
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
    return f"[{count} messages stand here in the conversation and could not be summarised: {why}.]" if count else ""


def _quote_requests(asked: Sequence[UserMessage]) -> str:
    lines = [f"- {line}" for message in asked[-MAX_QUOTES:] if (line := _first_line(message.text))]
    return "\n".join(["The user had said:", *lines]) if lines else ""


def _first_line(text: str) -> str:
    words = " ".join(remove_untrusted_text(text).split())  # else a stranger's words would stand there without their envelope
    return words if len(words) <= MAX_QUOTE_LENGTH else words[: MAX_QUOTE_LENGTH - 1] + "…"
