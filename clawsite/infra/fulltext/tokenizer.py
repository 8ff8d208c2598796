"""Text as the search knows it: one tokeniser for both databases, and the places of what was found. Pure: knows no database.

Words of scripts with spaces are lower-cased and lose their accents. Scripts without spaces (Chinese, Japanese, Korean, Thai, …)
are cut into pairs of neighbours: 東京都 becomes 東京 京都 都. The last character stands alone, so that every character begins
some word and can be found by it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from unicodedata import normalize

LONGEST_WORD = 64  # of a word of letters; a key or a picture as text is longer and is found by its beginning
MOST_INDEXED = 50_000  # characters of one message
MOST_TERMS = 16
SNIPPET, BEFORE_MATCH, MOST_MATCHES = 160, 40, 20

# Scripts that are written without spaces. Not among them: the middle dot of katakana, which separates.
_RUN = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3021-\u3029\u3040-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs of Indic scripts belong to their word; to `re` they are no letters.
_TOKEN = re.compile(rf"(?P<run>[{_RUN}]+)|(?:[^\W_{_RUN}]|[\u0900-\u0963\u0966-\u0dff])+")
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


def words(text: str) -> set[str]:
    """The words under which a text is found."""
    folded = fold(text[:MOST_INDEXED])
    if folded.isascii():  # the same, four times as fast: this is on the way of every message
        return {word[:LONGEST_WORD] for word in _ASCII.findall(folded)}
    found: set[str] = set()
    for token in _TOKEN.finditer(folded):
        if run := token["run"]:
            found.update(_pairs(run))
        else:
            found.add(token[0][:LONGEST_WORD])
    return found


def title_words(title: str, label: str = "") -> str:
    """The same in one line, each word between spaces, for LIKE."""
    return f" {' '.join(sorted(words(f'{title} {label}')))} " if title or label else ""


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run))]


@dataclass(frozen=True, slots=True)
class Term:
    """One thing to look for: a word, the beginning of one, or neighbouring characters."""

    text: str
    is_run: bool = False
    is_prefix: bool = False

    @property
    def indexed(self) -> list[tuple[str, bool]]:
        """The words that an index must hold, and whether only their beginning is known."""
        if self.is_run and len(self.text) > 1:
            return [(pair, False) for pair in _pairs(self.text)[:-1]]
        return [(self.text[:LONGEST_WORD], self.is_prefix or self.is_run)]

    def places(self, token: str, *, is_run: bool) -> Iterator[tuple[int, int]]:
        """Where it stands in a token of a text."""
        if is_run != self.is_run:
            return
        if not is_run:
            word = token[:LONGEST_WORD]
            if word == self.text[:LONGEST_WORD] or (self.is_prefix and word.startswith(self.text[:LONGEST_WORD])):
                yield 0, len(token)
            return
        at = token.find(self.text)
        while at >= 0:
            yield at, at + len(self.text)
            at = token.find(self.text, at + len(self.text))


def terms_of(query: str) -> list[Term]:
    """What a query asks for; nothing in it has a meaning beyond its words. The word being typed is looked for by its beginning."""
    folded = fold(query)
    found = [
        Term(token[0], is_run=bool(token["run"]), is_prefix=not token["run"] and token.end() == len(folded))
        for token in _TOKEN.finditer(folded)
    ]
    return list(dict.fromkeys(found))[:MOST_TERMS]


def holds(text: str, terms: Sequence[Term]) -> bool:
    """Whether the characters of a term stand together: an index of pairs only knows that all pairs are there."""
    runs = [term for term in terms if term.is_run and len(term.text) > 2]
    folded = fold(text[:MOST_INDEXED]) if runs else ""
    return all(term.text in folded for term in runs)


def found_at(text: str, terms: Sequence[Term]) -> Iterator[tuple[int, int]]:
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
            places = _places(piece[0], folded)
            yield from ((piece.start() + places[start], piece.start() + places[end - 1] + 1) for start, end in sorted(spans))


def _places(piece: str, folded: str) -> list[int]:
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


def snippet(text: str, terms: Sequence[Term]) -> Snippet:
    """The surroundings of the first match, in one line."""
    first = next(found_at(text[:MOST_INDEXED], terms), (0, 0))[0]
    start = 0 if first <= BEFORE_MATCH else _word_boundary(text, first - BEFORE_MATCH, first)
    shown = re.sub(r"\s", " ", text[start : start + SNIPPET])
    left, right = "…" if start else "", "…" if start + SNIPPET < len(text) else ""
    matches: list[list[int]] = []
    for begin, end in found_at(shown, terms):
        if matches and begin < matches[-1][1]:
            matches[-1][1] = max(end, matches[-1][1])  # two terms in one word
        elif len(matches) < MOST_MATCHES:
            matches.append([begin, end])
    units = [[_units(shown[:begin]) + len(left), _units(shown[:end]) + len(left)] for begin, end in matches]
    return Snippet(f"{left}{shown}{right}", units)


def _word_boundary(text: str, start: int, before: int) -> int:
    """Begin with a whole word, if one begins soon."""
    space = re.compile(r"\s").search(text, start, before)
    return space.end() if space else start


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
