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
from agents.memory.table import TABLE, WORKSPACE_TERM_PREFIX
from agents.models import MemoryChunk, MemoryFile
from clawsite.infra import sql
from clawsite.infra.fulltext.table import match_all, quote_word
from clawsite.infra.fulltext.tokenizer import SearchTerm, find_matches, parse_query, tokenize

MAX_CANDIDATES = 400  # pieces that are looked at; some 30 ms
MAX_COUNTED = 5_000  # pieces that have a word; beyond this it is common enough
MAX_TERMS = 48
# Weight of a word that no piece has; of those that one has it is 0.5 or more. In a question in Chinese most pairs are such.
UNKNOWN_TERM_WEIGHT = 0.1
MIN_PREFIX_LENGTH = 3  # letters: `decide` also finds `decided`
SNIPPET_LENGTH, SNIPPET_LEAD = 700, 200
BATCH_SIZE = 200  # rows in one INSERT


@dataclass(frozen=True, slots=True)
class IndexedFile:
    stamp: str
    digest: str


@dataclass(frozen=True, slots=True)
class MemoryHit:
    path: str
    start_line: int
    end_line: int
    score: float
    snippet: str


def list_indexed_files(workspace: str) -> dict[str, IndexedFile]:
    rows = MemoryFile.objects.filter(workspace=workspace).values_list("path", "stamp", "digest")
    return {path: IndexedFile(stamp, digest) for path, stamp, digest in rows}


@transaction.atomic
def delete_files(workspace: str, paths: Sequence[str]) -> None:
    MemoryFile.objects.filter(workspace=workspace, path__in=paths).delete()


@transaction.atomic
def store_note(workspace: str, path: str, note: Note) -> None:
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
    where = WORKSPACE_TERM_PREFIX + workspace
    for begin in range(0, len(note.chunks), BATCH_SIZE):
        pieces = note.chunks[begin : begin + BATCH_SIZE]
        chunks = MemoryChunk.objects.bulk_create([MemoryChunk(file=file, **piece._asdict()) for piece in pieces])
        TABLE.add([(chunk.pk, [*tokenize(chunk.text), where]) for chunk in chunks])


def search_notes(workspace: str, query: str, *, limit: int, min_score: float) -> list[MemoryHit]:
    """The pieces that fit best. The words of the query are data: no sign in them has a meaning."""
    asked = parse_query(query)
    terms = expand_terms(asked)
    found = {term: _find_chunks(workspace, term) for term in terms}
    pks: dict[int, None] = {}
    for term in sorted(terms, key=lambda term: len(found[term])):  # what is rare tells most
        pks.update(dict.fromkeys(found[term][: MAX_CANDIDATES - len(pks)]))
    total = MemoryChunk.objects.filter(file__workspace=workspace).count()
    weights = {term: math.log(1 + total / (len(found[term]) + 0.5)) if found[term] else UNKNOWN_TERM_WEIGHT for term in terms}
    ranked = []
    # The index proposes; whose a piece is, is decided by its rows.
    for chunk in MemoryChunk.objects.filter(pk__in=list(pks), file__workspace=workspace).select_related("file"):
        score = score_text(chunk.text, weights)
        if score >= min_score:
            ranked.append((score, sum(1 for _ in find_matches(chunk.text, asked)), chunk))
    ranked.sort(key=lambda each: (-each[0], -each[1], each[2].file.path, each[2].start_line))
    return [
        MemoryHit(chunk.file.path, chunk.start_line, chunk.end_line, score, make_snippet(chunk.text, [*asked, *terms]))
        for score, _, chunk in ranked[:limit]
    ]


def _find_chunks(workspace: str, term: SearchTerm) -> list[int]:
    condition = match_all(
        [quote_word(WORKSPACE_TERM_PREFIX + workspace), *(quote_word(word, is_prefix) for word, is_prefix in term.indexed)]
    )
    newest = f"SELECT {TABLE.id} FROM {TABLE.name} WHERE {TABLE.matches} ORDER BY {TABLE.id} DESC LIMIT %s"
    return [pk for (pk,) in sql.fetch_rows(newest, [condition, MAX_COUNTED])]


def expand_terms(asked: Sequence[SearchTerm]) -> list[SearchTerm]:
    """What is looked for one by one: beginnings of words, and pairs of characters where a script has no spaces."""
    terms: list[SearchTerm] = []
    for term in asked:
        if term.is_run and len(term.text) > 2:
            terms += [SearchTerm(term.text[at : at + 2], is_run=True) for at in range(len(term.text) - 1)]
        else:
            terms.append(replace(term, is_prefix=not term.is_run and len(term.text) >= MIN_PREFIX_LENGTH))
    return list(dict.fromkeys(terms))[:MAX_TERMS]


def score_text(text: str, weights: dict[SearchTerm, float]) -> float:
    """From 0 for none of the words to 1 for all of them."""
    there = tokenize(text)
    has = sum(weight for term, weight in weights.items() if _matches_any(term, there))
    return round(has / (sum(weights.values()) or 1), 3)


def _matches_any(term: SearchTerm, there: set[str]) -> bool:
    return all(word in there or (is_prefix and any(other.startswith(word) for other in there)) for word, is_prefix in term.indexed)


def make_snippet(text: str, terms: Sequence[SearchTerm]) -> str:
    """At most 700 characters, from shortly before the first match on, if possible from the beginning of a line."""
    if len(text) <= SNIPPET_LENGTH:
        return text
    first = next(find_matches(text, terms), (0, 0))[0]
    start = min(max(0, first - SNIPPET_LEAD), len(text) - SNIPPET_LENGTH)
    line = re.compile("\n").search(text, start, first) if start else None
    start = line.end() if line else start
    return text[start : start + SNIPPET_LENGTH]
