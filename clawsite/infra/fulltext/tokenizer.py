"""The tokenizer for full-text search on both databases, and the positions of matches in a text. Pure: no database.

Words of scripts with spaces are lowercased and lose their accents. Scripts without spaces (Chinese, Japanese, Korean, Thai, …)
are split into bigrams: 東京都 becomes 東京 京都 都. The last character is a word too, so that every character begins a word and
can be found on its own.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unicodedata import normalize

MAX_WORD_LENGTH = 64  # characters; longer ones, such as keys or base64 images, are found by their beginning
MAX_INDEXED_CHARACTERS = 50_000  # per message
MAX_TERMS = 16
SNIPPET_LENGTH, CONTEXT_BEFORE_MATCH, MAX_MATCHES = 160, 40, 20

# Scripts written without spaces, except the katakana middle dot, which separates words.
_UNSPACED_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3021-\u3029\u3040-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs of Indic scripts belong to their word, but `\w` doesn't match them.
_TOKEN = re.compile(rf"(?P<run>[{_UNSPACED_SCRIPTS}]+)|(?:[^\W_{_UNSPACED_SCRIPTS}]|[\u0900-\u0963\u0966-\u0dff])+")
_ASCII = re.compile("[a-z0-9]+")
_ACCENTS = re.compile("[\u0300-\u036f]")  # Latin, Greek and Cyrillic only: が is a different letter than か
# Text between characters that no word contains and normalization never joins, so that positions can be mapped piece by piece.
_PIECE = re.compile(r"[^\s!-/:-@\[-`{-~\u2000-\u206f\u3000-\u3004\u3008-\u3020\uff01-\uff0f\uff1a-\uff20]+")


def fold(text: str) -> str:
    """Normalize case, accents and character width."""
    if text.isascii():
        return text.lower()
    plain = normalize("NFKD", normalize("NFKD", text).casefold())
    return normalize("NFC", _ACCENTS.sub("", plain))


def tokenize(text: str) -> set[str]:
    """Return the words to index for a text."""
    folded = fold(text[:MAX_INDEXED_CHARACTERS])
    if folded.isascii():  # same result, four times as fast: this runs for every message
        return {word[:MAX_WORD_LENGTH] for word in _ASCII.findall(folded)}
    words: set[str] = set()
    for token in _TOKEN.finditer(folded):
        if run := token["run"]:
            words.update(_bigrams(run))
        else:
            words.add(token[0][:MAX_WORD_LENGTH])
    return words


def tokenize_title(title: str, label: str = "") -> str:
    """Return the words of a title in one line, each between spaces, for LIKE."""
    return f" {' '.join(sorted(tokenize(f'{title} {label}')))} " if title or label else ""


def _bigrams(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run))]


@dataclass(frozen=True, slots=True)
class SearchTerm:
    """A term of a query: a word, a prefix, or a run of characters of a script without spaces."""

    text: str
    is_run: bool = False
    is_prefix: bool = False

    @property
    def indexed(self) -> list[tuple[str, bool]]:
        """The words that must be in the index, as (word, is it a prefix)."""
        if self.is_run and len(self.text) > 1:
            return [(pair, False) for pair in _bigrams(self.text)[:-1]]
        return [(self.text[:MAX_WORD_LENGTH], self.is_prefix or self.is_run)]

    def find_in(self, token: str, *, is_run: bool) -> Iterator[tuple[int, int]]:
        """Yield the spans of the term in a token of a text."""
        if is_run != self.is_run:
            return
        if not is_run:
            word = token[:MAX_WORD_LENGTH]
            if word == self.text[:MAX_WORD_LENGTH] or (self.is_prefix and word.startswith(self.text[:MAX_WORD_LENGTH])):
                yield 0, len(token)
            return
        at = token.find(self.text)
        while at >= 0:
            yield at, at + len(self.text)
            at = token.find(self.text, at + len(self.text))


def parse_query(query: str) -> list[SearchTerm]:
    """Return the terms of a query. There are no operators. The last word, which may be incomplete, is a prefix."""
    folded = fold(query)
    terms = [
        SearchTerm(token[0], is_run=bool(token["run"]), is_prefix=not token["run"] and token.end() == len(folded))
        for token in _TOKEN.finditer(folded)
    ]
    return list(dict.fromkeys(terms))[:MAX_TERMS]


def contains_terms(text: str, terms: Sequence[SearchTerm]) -> bool:
    """Whether the characters of each run are adjacent in the text. A bigram index only knows that all pairs occur."""
    runs = [term for term in terms if term.is_run and len(term.text) > 2]
    folded = fold(text[:MAX_INDEXED_CHARACTERS]) if runs else ""
    return all(term.text in folded for term in runs)


def find_matches(text: str, terms: Sequence[SearchTerm]) -> Iterator[tuple[int, int]]:
    """Yield the spans of the terms in the original text, in order."""
    for piece in _PIECE.finditer(text):
        folded = fold(piece[0])
        spans = [
            (token.start() + start, token.start() + end)
            for token in _TOKEN.finditer(folded)
            for term in terms
            for start, end in term.find_in(token[0], is_run=bool(token["run"]))
        ]
        if spans:
            offsets = _map_to_original(piece[0], folded)
            yield from ((piece.start() + offsets[start], piece.start() + offsets[end - 1] + 1) for start, end in sorted(spans))


def _map_to_original(piece: str, folded: str) -> list[int]:
    """Return the original offset of each folded character; approximate where normalization joined several."""
    if len(piece) == len(folded):
        return list(range(len(piece)))
    single = [at for at, character in enumerate(piece) for _ in fold(character)]
    if len(single) == len(folded):
        return single
    return [min(at * len(piece) // len(folded), len(piece) - 1) for at in range(len(folded))]


@dataclass(frozen=True, slots=True)
class Snippet:
    text: str
    matches: list[list[int]]  # [start, end] in UTF-16 units, as browsers count


def make_snippet(text: str, terms: Sequence[SearchTerm]) -> Snippet:
    """Return one line of text around the first match."""
    first = next(find_matches(text[:MAX_INDEXED_CHARACTERS], terms), (0, 0))[0]
    start = 0 if first <= CONTEXT_BEFORE_MATCH else _find_word_boundary(text, first - CONTEXT_BEFORE_MATCH, first)
    shown = re.sub(r"\s", " ", text[start : start + SNIPPET_LENGTH])
    left, right = "…" if start else "", "…" if start + SNIPPET_LENGTH < len(text) else ""
    matches: list[list[int]] = []
    for begin, end in find_matches(shown, terms):
        if matches and begin < matches[-1][1]:
            matches[-1][1] = max(end, matches[-1][1])  # two terms match the same word
        elif len(matches) < MAX_MATCHES:
            matches.append([begin, end])
    units = [[_utf16_length(shown[:begin]) + len(left), _utf16_length(shown[:end]) + len(left)] for begin, end in matches]
    return Snippet(f"{left}{shown}{right}", units)


def _find_word_boundary(text: str, start: int, before: int) -> int:
    """Return the start of the next word before position `before`, or `start` if there is none."""
    space = re.compile(r"\s").search(text, start, before)
    return space.end() if space else start


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
