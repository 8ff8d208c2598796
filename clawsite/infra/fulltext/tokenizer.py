"""Text as the search knows it: one tokeniser for both databases, and the places of what was found. Pure: knows no database.

Words of scripts with spaces are lower-cased and lose their accents. Scripts without spaces (Chinese, Japanese, Korean, Thai, …)
are cut into pairs of neighbours: 東京都 becomes 東京 京都 都. The last character stands alone, so that every character begins
some word and can be found by it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unicodedata import normalize

MAX_WORD_LENGTH = 64  # of a word of letters; a key or a picture as text is longer and is found by its beginning
MAX_INDEXED_CHARACTERS = 50_000  # characters of one message
MAX_TERMS = 16
SNIPPET_LENGTH, CONTEXT_BEFORE_MATCH, MAX_MATCHES = 160, 40, 20

# Scripts that are written without spaces. Not among them: the middle dot of katakana, which separates.
_UNSPACED_SCRIPTS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3021-\u3029\u3040-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs of Indic scripts belong to their word; to `re` they are no letters.
_TOKEN = re.compile(rf"(?P<run>[{_UNSPACED_SCRIPTS}]+)|(?:[^\W_{_UNSPACED_SCRIPTS}]|[\u0900-\u0963\u0966-\u0dff])+")
_ASCII = re.compile("[a-z0-9]+")
_ACCENTS = re.compile("[\u0300-\u036f]")  # of Latin, Greek and Cyrillic; が is another letter than か
# What no word contains and no normalisation joins: between such pieces places can be counted piece by piece.
_PIECE = re.compile(r"[^\s!-/:-@\[-`{-~\u2000-\u206f\u3000-\u3004\u3008-\u3020\uff01-\uff0f\uff1a-\uff20]+")


def fold(text: str) -> str:
    """Without case, accents and the width of letters."""
    if text.isascii():
        return text.lower()
    plain = normalize("NFKD", normalize("NFKD", text).casefold())
    return normalize("NFC", _ACCENTS.sub("", plain))


def tokenize(text: str) -> set[str]:
    """The words under which a text is found."""
    folded = fold(text[:MAX_INDEXED_CHARACTERS])
    if folded.isascii():  # the same, four times as fast: this is on the way of every message
        return {word[:MAX_WORD_LENGTH] for word in _ASCII.findall(folded)}
    found: set[str] = set()
    for token in _TOKEN.finditer(folded):
        if run := token["run"]:
            found.update(_bigrams(run))
        else:
            found.add(token[0][:MAX_WORD_LENGTH])
    return found


def tokenize_title(title: str, label: str = "") -> str:
    """The same in one line, each word between spaces, for LIKE."""
    return f" {' '.join(sorted(tokenize(f'{title} {label}')))} " if title or label else ""


def _bigrams(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run))]


@dataclass(frozen=True, slots=True)
class SearchTerm:
    """One thing to look for: a word, the beginning of one, or neighbouring characters."""

    text: str
    is_run: bool = False
    is_prefix: bool = False

    @property
    def indexed(self) -> list[tuple[str, bool]]:
        """The words that an index must hold, and whether only their beginning is known."""
        if self.is_run and len(self.text) > 1:
            return [(pair, False) for pair in _bigrams(self.text)[:-1]]
        return [(self.text[:MAX_WORD_LENGTH], self.is_prefix or self.is_run)]

    def places(self, token: str, *, is_run: bool) -> Iterator[tuple[int, int]]:
        """Where it stands in a token of a text."""
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
    """What a query asks for; nothing in it has a meaning beyond its words. The word being typed is looked for by its beginning."""
    folded = fold(query)
    found = [
        SearchTerm(token[0], is_run=bool(token["run"]), is_prefix=not token["run"] and token.end() == len(folded))
        for token in _TOKEN.finditer(folded)
    ]
    return list(dict.fromkeys(found))[:MAX_TERMS]


def contains_terms(text: str, terms: Sequence[SearchTerm]) -> bool:
    """Whether the characters of a term stand together: an index of pairs only knows that all pairs are there."""
    runs = [term for term in terms if term.is_run and len(term.text) > 2]
    folded = fold(text[:MAX_INDEXED_CHARACTERS]) if runs else ""
    return all(term.text in folded for term in runs)


def find_matches(text: str, terms: Sequence[SearchTerm]) -> Iterator[tuple[int, int]]:
    """Where the terms stand in a text, in its own characters, from the first on."""
    for piece in _PIECE.finditer(text):
        folded = fold(piece[0])
        spans = [
            (token.start() + start, token.start() + end)
            for token in _TOKEN.finditer(folded)
            for term in terms
            for start, end in term.places(token[0], is_run=bool(token["run"]))
        ]
        if spans:
            places = _map_to_original(piece[0], folded)
            yield from ((piece.start() + places[start], piece.start() + places[end - 1] + 1) for start, end in sorted(spans))


def _map_to_original(piece: str, folded: str) -> list[int]:
    """For each folded character the one it came from; the nearest guess where normalising joined several."""
    if len(piece) == len(folded):
        return list(range(len(piece)))
    single = [at for at, character in enumerate(piece) for _ in fold(character)]
    if len(single) == len(folded):
        return single
    return [min(at * len(piece) // len(folded), len(piece) - 1) for at in range(len(folded))]


@dataclass(frozen=True, slots=True)
class Snippet:
    text: str
    matches: list[list[int]]  # in UTF-16 units, as browsers count


def make_snippet(text: str, terms: Sequence[SearchTerm]) -> Snippet:
    """The surroundings of the first match, in one line."""
    first = next(find_matches(text[:MAX_INDEXED_CHARACTERS], terms), (0, 0))[0]
    start = 0 if first <= CONTEXT_BEFORE_MATCH else _find_word_boundary(text, first - CONTEXT_BEFORE_MATCH, first)
    shown = re.sub(r"\s", " ", text[start : start + SNIPPET_LENGTH])
    left, right = "…" if start else "", "…" if start + SNIPPET_LENGTH < len(text) else ""
    matches: list[list[int]] = []
    for begin, end in find_matches(shown, terms):
        if matches and begin < matches[-1][1]:
            matches[-1][1] = max(end, matches[-1][1])  # two terms in one word
        elif len(matches) < MAX_MATCHES:
            matches.append([begin, end])
    units = [[_utf16_length(shown[:begin]) + len(left), _utf16_length(shown[:end]) + len(left)] for begin, end in matches]
    return Snippet(f"{left}{shown}{right}", units)


def _find_word_boundary(text: str, start: int, before: int) -> int:
    """Begin with a whole word, if one begins soon."""
    space = re.compile(r"\s").search(text, start, before)
    return space.end() if space else start


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
