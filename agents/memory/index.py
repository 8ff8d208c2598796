"""Notes as rows: which are known, how they are stored, which of their pieces a query finds. Synchronous; files are notes.py's.

The index proposes pieces that have any word of the query; how well each fits is computed here from its text, the same on both
databases: the share of the query's words it has, where a word that few pieces have counts for more.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db import transaction

from agents.memory.notes import Note
from agents.memory.table import IN_WORKSPACE, TABLE
from agents.models import MemoryChunk, MemoryFile
from clawsite.infra import sql
from clawsite.infra.fulltext.table import all_of, quoted
from clawsite.infra.fulltext.tokenizer import Term, found_at, terms_of, words

MOST_CANDIDATES = 400  # pieces that are looked at; some 30 ms
MOST_COUNTED = 5_000  # pieces that have a word; beyond this it is common enough
MOST_TERMS = 48
# Weight of a word that no piece has; of those that one has it is 0.5 or more. In a question in Chinese most pairs are such.
OF_NO_NOTE = 0.1
SHORTEST_PREFIX = 3  # letters: `decide` also finds `decided`
SNIPPET, BEFORE_MATCH = 700, 200
BATCH = 200  # rows in one INSERT


@dataclass(frozen=True, slots=True)
class Known:
    stamp: str
    digest: str


@dataclass(frozen=True, slots=True)
class Hit:
    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str


def known_files(workspace: str) -> dict[str, Known]:
    rows = MemoryFile.objects.filter(workspace=workspace).values_list("path", "stamp", "digest")
    return {path: Known(stamp, digest) for path, stamp, digest in rows}


@transaction.atomic
def forget(workspace: str, paths: Sequence[str]) -> None:
    MemoryFile.objects.filter(workspace=workspace, path__in=paths).delete()


@transaction.atomic
def store(workspace: str, path: str, note: Note) -> None:
    """Put a note as it is now in the place of what was known of it. Of two who do so at once, the second finds it done."""
    MemoryFile.objects.bulk_create([MemoryFile(workspace=workspace, path=path)], ignore_conflicts=True)
    file = MemoryFile.objects.select_for_update().filter(workspace=workspace, path=path).first()
    if file is None:  # forgotten by somebody else in this moment; the next search finds it
        return
    is_same = file.digest == note.digest
    file.stamp, file.digest = note.stamp, note.digest
    file.save(update_fields=["stamp", "digest"])
    if is_same:
        return
    file.chunks.all().delete()
    where = IN_WORKSPACE + workspace
    for begin in range(0, len(note.pieces), BATCH):
        pieces = note.pieces[begin : begin + BATCH]
        chunks = MemoryChunk.objects.bulk_create([MemoryChunk(file=file, **piece._asdict()) for piece in pieces])
        TABLE.add([(chunk.pk, [*words(chunk.text), where]) for chunk in chunks])


def search(workspace: str, query: str, *, limit: int, min_score: float) -> list[Hit]:
    """The pieces that fit best. The words of the query are data: no sign in them has a meaning."""
    asked = terms_of(query)
    terms = terms_for(asked)
    found = {term: _having(workspace, term) for term in terms}
    pks: dict[int, None] = {}
    for term in sorted(terms, key=lambda term: len(found[term])):  # what is rare tells most
        pks.update(dict.fromkeys(found[term][: MOST_CANDIDATES - len(pks)]))
    total = MemoryChunk.objects.filter(file__workspace=workspace).count()
    weights = {term: math.log(1 + total / (len(found[term]) + 0.5)) if found[term] else OF_NO_NOTE for term in terms}
    ranked = []
    # The index proposes; whose a piece is, is decided by its rows.
    for chunk in MemoryChunk.objects.filter(pk__in=list(pks), file__workspace=workspace).select_related("file"):
        score = score_of(chunk.text, weights)
        if score >= min_score:
            ranked.append((score, sum(1 for _ in found_at(chunk.text, asked)), chunk))
    ranked.sort(key=lambda each: (-each[0], -each[1], each[2].file.path, each[2].start_line))
    return [
        Hit(chunk.file.path, chunk.start_line, chunk.end_line, score, snippet_of(chunk.text, [*asked, *terms]))
        for score, _, chunk in ranked[:limit]
    ]


def _having(workspace: str, term: Term) -> list[int]:
    condition = all_of([quoted(IN_WORKSPACE + workspace), *(quoted(word, is_prefix) for word, is_prefix in term.indexed)])
    newest = f"SELECT {TABLE.id} FROM {TABLE.name} WHERE {TABLE.matches} ORDER BY {TABLE.id} DESC LIMIT %s"
    return [pk for (pk,) in sql.rows(newest, [condition, MOST_COUNTED])]


def terms_for(asked: Sequence[Term]) -> list[Term]:
    """What is looked for one by one: beginnings of words, and pairs of characters where a script has no spaces."""
    terms: list[Term] = []
    for term in asked:
        if term.is_run and len(term.text) > 2:
            terms += [Term(term.text[at : at + 2], is_run=True) for at in range(len(term.text) - 1)]
        else:
            terms.append(replace(term, is_prefix=not term.is_run and len(term.text) >= SHORTEST_PREFIX))
    return list(dict.fromkeys(terms))[:MOST_TERMS]


def score_of(text: str, weights: dict[Term, float]) -> float:
    """From 0 for none of the words to 1 for all of them."""
    there = words(text)
    has = sum(weight for term, weight in weights.items() if _stands_among(term, there))
    return round(has / (sum(weights.values()) or 1), 3)


def _stands_among(term: Term, there: set[str]) -> bool:
    return all(word in there or (is_prefix and any(other.startswith(word) for other in there)) for word, is_prefix in term.indexed)


def snippet_of(text: str, terms: Sequence[Term]) -> str:
    """At most 700 characters, from shortly before the first match on, if possible from the beginning of a line."""
    if len(text) <= SNIPPET:
        return text
    first = next(found_at(text, terms), (0, 0))[0]
    start = min(max(0, first - BEFORE_MATCH), len(text) - SNIPPET)
    line = re.compile("\n").search(text, start, first) if start else None
    start = line.end() if line else start
    return text[start : start + SNIPPET]
