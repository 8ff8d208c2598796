"""Search messages and titles of the sessions a user can see: titles before messages, newest first."""

import uuid
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from clawsite.infra.fulltext.tokenizer import SearchTerm, Snippet, contains_terms, make_snippet, parse_query
from sessions_app.models import Session, SessionMember
from sessions_app.models.session import SessionQuerySet
from sessions_app.search_index import build_condition, find_candidates
from sessions_app.sessions.members import filter_shared_with
from sessions_app.sessions.selectors import list_visible_sessions, order_by_last_use
from sessions_app.transcript.rewinds import visible_condition

MAX_TITLES = 5  # in the results; a title is usually the beginning of a message
MAX_CANDIDATES = 2_000  # messages examined before returning fewer results than requested
MAX_ENTRY_ID = 2**62


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message, or a title if there is no message ID."""

    session: Session
    snippet: Snippet
    message_id: str | None
    role: str | None
    timestamp: int
    sender: str = ""  # author of a user message


def search_sessions(
    user: User, query: str, *, limit: int, own: bool = False, within: SessionQuerySet | None = None
) -> list[SearchHit]:
    """Find messages and titles with all words of the query in the user's visible sessions, only their own, or only those given.

    The query is plain text: no character has a special meaning.
    """
    terms = parse_query(query)
    if not terms:
        return []
    covered = filter_shared_with(user, list_visible_sessions(user)) if own else list_visible_sessions(user)
    if within is not None:
        covered = covered.filter(pk__in=within.values("pk"))
    titles = _search_titles(user, covered, terms, min(limit, MAX_TITLES))
    return [*titles, *_search_messages(covered, _build_condition(user, own, terms), terms, limit - len(titles))]


def _search_titles(user: User, covered: SessionQuerySet, terms: list[SearchTerm], limit: int) -> list[SearchHit]:
    condition = Q()
    for word, is_prefix in (part for term in terms for part in term.indexed):
        condition &= Q(title_words__contains=f" {word}" if is_prefix else f" {word} ")
    hits = []
    for session in order_by_last_use(user, covered.filter(condition))[: limit * 4]:
        text = " · ".join(dict.fromkeys(part for part in (session.label, session.title) if part))
        if contains_terms(text, terms):
            hits.append(SearchHit(session, make_snippet(text, terms), None, None, clock.to_ms(session.updated_at)))
    return hits[:limit]


def _build_condition(user: User, own: bool, terms: list[SearchTerm]) -> str:
    """Build the index condition: the words, and whose messages to search."""
    if user.is_service:
        return build_condition(terms, owner_id=user.pk)
    if user.has_perm("accounts.view_any_session") and not own:
        return build_condition(terms, owner_id=None)
    return build_condition(
        terms, owner_id=user.pk, session_ids=SessionMember.objects.filter(user=user).values_list("session_id", flat=True)
    )


def _search_messages(covered: SessionQuerySet, condition: str, terms: list[SearchTerm], limit: int) -> list[SearchHit]:
    hits: list[SearchHit] = []
    below, read = MAX_ENTRY_ID, 0
    while len(hits) < limit and read < MAX_CANDIDATES:
        page = find_candidates(condition, below=below, limit=limit * 2, where=f"AND {visible_condition('e')}")
        hits += _filter_visible(covered, page, terms)
        read += len(page)
        if len(page) < limit * 2:
            break
        below = page[-1][0]
    return hits[:limit]


def _filter_visible(covered: SessionQuerySet, page: list[tuple[Any, ...]], terms: list[SearchTerm]) -> list[SearchHit]:
    """Check access on the session rows; the index only proposes candidates."""
    session_ids: set[uuid.UUID] = {sql.as_uuid(row[1]) for row in page}
    sessions = covered.in_bulk(list(session_ids))
    return [
        SearchHit(session, make_snippet(text, terms), message_id, role, clock.to_ms(sql.as_datetime(moment)), sender or "")
        for _, session_id, text, message_id, role, moment, sender in page
        if (session := sessions.get(sql.as_uuid(session_id))) and contains_terms(text, terms)
    ]
