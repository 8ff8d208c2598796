"""The search index of notes: list, store and search their chunks. Synchronous; `notes.py` reads the files.

The index proposes chunks that contain any word of the query. Their score is computed here from the text, so both databases
give the same score: the share of the query's words a chunk contains, with rare words weighted higher.
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

MAX_CANDIDATES = 400  # chunks that are scored; about 30 ms
MAX_COUNTED = 5_000  # chunks containing a word; beyond this it counts as common
MAX_TERMS = 48
# Weight of a word that no chunk contains; for other words it is 0.5 or more. Most character pairs of a Chinese query are like that.
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
    """Replace the stored version of a note. If two searches do this at the same time, the second finds it done."""
    MemoryFile.objects.bulk_create([MemoryFile(workspace=workspace, path=path)], ignore_conflicts=True)
    file = MemoryFile.objects.select_for_update().filter(workspace=workspace, path=path).first()
    if file is None:  # deleted concurrently; the next search adds it again
        return
    is_same = file.digest == note.digest
    file.stamp, file.digest = note.stamp, note.digest
    file.save(update_fields=["stamp", "digest"])
    if is_same:
        return
    file.chunks.all().delete()
    workspace_term = WORKSPACE_TERM_PREFIX + workspace
    for begin in range(0, len(note.chunks), BATCH_SIZE):
        pieces = note.chunks[begin : begin + BATCH_SIZE]
        chunks = MemoryChunk.objects.bulk_create([MemoryChunk(file=file, **piece._asdict()) for piece in pieces])
        TABLE.add([(chunk.pk, [*tokenize(chunk.text), workspace_term]) for chunk in chunks])


def search_notes(workspace: str, query: str, *, limit: int, min_score: float) -> list[MemoryHit]:
    """Return the best-matching chunks. The query is plain text: no character has a special meaning."""
    query_terms = parse_query(query)
    terms = expand_terms(query_terms)
    matches = {term: _find_chunks(workspace, term) for term in terms}
    pks: dict[int, None] = {}
    for term in sorted(terms, key=lambda term: len(matches[term])):  # rare words are the most informative
        pks.update(dict.fromkeys(matches[term][: MAX_CANDIDATES - len(pks)]))
    total = MemoryChunk.objects.filter(file__workspace=workspace).count()
    weights = {term: math.log(1 + total / (len(matches[term]) + 0.5)) if matches[term] else UNKNOWN_TERM_WEIGHT for term in terms}
    ranked = []
    # The index only proposes; the rows decide which workspace a chunk belongs to.
    for chunk in MemoryChunk.objects.filter(pk__in=list(pks), file__workspace=workspace).select_related("file"):
        score = score_text(chunk.text, weights)
        if score >= min_score:
            ranked.append((score, sum(1 for _ in find_matches(chunk.text, query_terms)), chunk))
    ranked.sort(key=lambda each: (-each[0], -each[1], each[2].file.path, each[2].start_line))
    return [
        MemoryHit(chunk.file.path, chunk.start_line, chunk.end_line, score, make_snippet(chunk.text, [*query_terms, *terms]))
        for score, _, chunk in ranked[:limit]
    ]


def _find_chunks(workspace: str, term: SearchTerm) -> list[int]:
    condition = match_all(
        [quote_word(WORKSPACE_TERM_PREFIX + workspace), *(quote_word(word, is_prefix) for word, is_prefix in term.indexed)]
    )
    newest = f"SELECT {TABLE.id} FROM {TABLE.name} WHERE {TABLE.matches} ORDER BY {TABLE.id} DESC LIMIT %s"
    return [pk for (pk,) in sql.fetch_rows(newest, [condition, MAX_COUNTED])]


def expand_terms(query_terms: Sequence[SearchTerm]) -> list[SearchTerm]:
    """Return the terms to look up: word prefixes, and character pairs for scripts without spaces."""
    terms: list[SearchTerm] = []
    for term in query_terms:
        if term.is_run and len(term.text) > 2:
            terms += [SearchTerm(term.text[at : at + 2], is_run=True) for at in range(len(term.text) - 1)]
        else:
            terms.append(replace(term, is_prefix=not term.is_run and len(term.text) >= MIN_PREFIX_LENGTH))
    return list(dict.fromkeys(terms))[:MAX_TERMS]


def score_text(text: str, weights: dict[SearchTerm, float]) -> float:
    """Return a score from 0 for none of the words to 1 for all of them."""
    tokens = tokenize(text)
    matched = sum(weight for term, weight in weights.items() if _matches_any(term, tokens))
    return round(matched / (sum(weights.values()) or 1), 3)


def _matches_any(term: SearchTerm, tokens: set[str]) -> bool:
    return all(
        word in tokens or (is_prefix and any(other.startswith(word) for other in tokens)) for word, is_prefix in term.indexed
    )


def make_snippet(text: str, terms: Sequence[SearchTerm]) -> str:
    """Return at most 700 characters, starting shortly before the first match, at the start of a line if possible."""
    if len(text) <= SNIPPET_LENGTH:
        return text
    first = next(find_matches(text, terms), (0, 0))[0]
    start = min(max(0, first - SNIPPET_LEAD), len(text) - SNIPPET_LENGTH)
    line = re.compile("\n").search(text, start, first) if start else None
    start = line.end() if line else start
    return text[start : start + SNIPPET_LENGTH]
