"""Search messages and session titles."""

from typing import NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.protocol.params import Id, Key, Params
from clawsite.gateway.protocol.scopes import Scope
from clawsite.gateway.server.registry import Call, method
from clawsite.gateway.server.session_address import to_address
from clawsite.infra import db
from clawsite.routing.inbound import find_session_or_none
from sessions_app.models import Session
from sessions_app.search import SearchHit, search_sessions


class SearchParams(Params):
    """`agentId` and `sessionKeys` limit the search."""

    query: str = Field(min_length=1, max_length=200)
    agent_id: Id | None = None
    session_keys: list[Key] | None = Field(None, min_length=1, max_length=64)
    limit: int = Field(20, ge=1, le=100)
    own: bool = False  # true: omit sessions that the caller can see only because of a permission


class TitleHit(TypedDict):
    """`matches` are ranges in the snippet in UTF-16 units, as used by `String.prototype.slice`."""

    sessionKey: str
    sessionId: str
    title: str | None
    snippet: str
    matches: list[list[int]]
    timestamp: int


class Result(TitleHit):
    """A message. `score` only reflects the order: it decreases from 1."""

    messageId: str
    role: str
    score: float
    sender: NotRequired[str]


class SearchAnswer(TypedDict):
    """`titles` are sessions whose title matches."""

    titles: list[TitleHit]
    results: list[Result]


@method("sessions.search", scope=Scope.READ)
async def sessions_search(call: Call, params: SearchParams) -> SearchAnswer:
    """Find messages and titles that contain all words of the query, newest first.

    Case, accents and punctuation are ignored, and the last word may be incomplete. Messages removed by a rewind or reset are not
    found.
    """
    hits = await db.read(_find_hits, call, params)
    titles = [_to_title_hit(hit, call.user.pk) for hit in hits if hit.message_id is None]
    messages = [hit for hit in hits if hit.message_id is not None]
    scores = [round(1 - rank / len(messages), 3) for rank in range(len(messages))]
    return SearchAnswer(
        titles=titles, results=[_to_result(hit, call.user.pk, score) for hit, score in zip(messages, scores, strict=True)]
    )


def _find_hits(call: Call, params: SearchParams) -> list[SearchHit]:
    within = Session.objects.for_user(call.user)
    if params.agent_id:
        within = within.filter(agent=params.agent_id)
    if params.session_keys:
        named = [find_session_or_none(call.user, to_address(key, None, params.agent_id)) for key in params.session_keys]
        within = within.filter(pk__in=[session.pk for session in named if session])
    limited = params.agent_id or params.session_keys
    return search_sessions(call.user, params.query, limit=params.limit, own=params.own, within=within if limited else None)


def _to_title_hit(hit: SearchHit, user_pk: int) -> TitleHit:
    return TitleHit(
        sessionKey=hit.session.key_for(user_pk),
        sessionId=str(hit.session.generation_id),
        title=hit.session.label or hit.session.title or None,
        snippet=hit.snippet.text,
        matches=hit.snippet.matches,
        timestamp=hit.timestamp,
    )


def _to_result(hit: SearchHit, user_pk: int, score: float) -> Result:
    fields = {"messageId": hit.message_id, "role": hit.role, "score": score, **({"sender": hit.sender} if hit.sender else {})}
    return cast("Result", {**_to_title_hit(hit, user_pk), **fields})
