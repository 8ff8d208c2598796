"""Searching what was said: messages and titles of the sessions somebody may see, newest first, titles before messages."""

import uuid
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from clawsite.accounts.models import User
from clawsite.infra import clock, sql
from clawsite.infra.fulltext.tokenizer import Snippet, Term, holds, snippet, terms_of
from sessions_app.models import Session, SessionMember
from sessions_app.models.session import SessionQuerySet
from sessions_app.search_index import candidates, matching
from sessions_app.sessions.members import shared_with
from sessions_app.sessions.selectors import in_order_of_use, shown_to
from sessions_app.transcript.rewinds import visible

MOST_TITLES = 5  # of the results; a title is a message's beginning most of the time
MOST_READ = 2_000  # messages looked at before an answer with fewer results is given
NEWEST = 2**62


@dataclass(frozen=True, slots=True)
class Hit:
    """A message, or a title when there is no message id."""

    session: Session
    snippet: Snippet
    message_id: str | None
    role: str | None
    timestamp: int
    sender: str = ""  # who wrote it, of a user's message


def search(user: User, query: str, *, limit: int, own: bool = False, within: SessionQuerySet | None = None) -> list[Hit]:
    """Whatever holds all words of the query, in all sessions somebody may see, only their own, or only those given.

    The words are data: no sign in them has a meaning.
    """
    terms = terms_of(query)
    if not terms:
        return []
    covered = shared_with(user, shown_to(user)) if own else shown_to(user)
    if within is not None:
        covered = covered.filter(pk__in=within.values("pk"))
    titles = _titles(user, covered, terms, min(limit, MOST_TITLES))
    return [*titles, *_messages(covered, _whose(user, own, terms), terms, limit - len(titles))]


def _titles(user: User, covered: SessionQuerySet, terms: list[Term], limit: int) -> list[Hit]:
    asked = Q()
    for word, is_prefix in (part for term in terms for part in term.indexed):
        asked &= Q(title_words__contains=f" {word}" if is_prefix else f" {word} ")
    hits = []
    for session in in_order_of_use(user, covered.filter(asked))[: limit * 4]:
        text = " · ".join(dict.fromkeys(part for part in (session.label, session.title) if part))
        if holds(text, terms):
            hits.append(Hit(session, snippet(text, terms), None, None, clock.to_ms(session.updated_at)))
    return hits[:limit]


def _whose(user: User, own: bool, terms: list[Term]) -> str:
    """The index's condition: the words, and whose messages they are in."""
    if user.is_service:
        return matching(terms, owner_id=user.pk)
    if user.has_perm("accounts.view_any_session") and not own:
        return matching(terms, owner_id=None)
    return matching(
        terms, owner_id=user.pk, session_ids=SessionMember.objects.filter(user=user).values_list("session_id", flat=True)
    )


def _messages(covered: SessionQuerySet, condition: str, terms: list[Term], limit: int) -> list[Hit]:
    hits: list[Hit] = []
    below, read = NEWEST, 0
    while len(hits) < limit and read < MOST_READ:
        page = candidates(condition, below=below, most=limit * 2, where=f"AND {visible('e')}")
        hits += _allowed(covered, page, terms)
        read += len(page)
        if len(page) < limit * 2:
            break
        below = page[-1][0]
    return hits[:limit]


def _allowed(covered: SessionQuerySet, page: list[tuple[Any, ...]], terms: list[Term]) -> list[Hit]:
    """The index proposes; who may see a session is decided by its rows."""
    wanted: set[uuid.UUID] = {sql.as_uuid(row[1]) for row in page}
    sessions = covered.in_bulk(list(wanted))
    return [
        Hit(session, snippet(text, terms), message_id, role, clock.to_ms(sql.as_moment(moment)), sender or "")
        for _, session_id, text, message_id, role, moment, sender in page
        if (session := sessions.get(sql.as_uuid(session_id))) and holds(text, terms)
    ]
