"""Finding what was said."""

from typing import NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from clawsite.gateway.registry import Call, Params, method
from clawsite.gateway.scopes import Scope
from clawsite.infra import db
from sessions_app.search import Hit, search


class SearchParams(Params):
    query: str = Field(min_length=1, max_length=200)
    limit: int = Field(20, ge=1, le=100)
    own: bool = False  # true: without conversations that nobody shares with the caller, who may see them by office


class Result(TypedDict):
    """A message, or the title of a session: then `messageId` and `role` are null. `matches` are places in the snippet.

    They are counted in UTF-16 units, as `String.prototype.slice` counts.
    """

    sessionKey: str
    sessionId: str
    title: str | None
    messageId: str | None
    role: str | None
    sender: NotRequired[str]
    snippet: str
    matches: list[list[int]]
    timestamp: int


class SearchAnswer(TypedDict):
    results: list[Result]


@method("sessions.search", scope=Scope.READ)
async def sessions_search(call: Call, params: SearchParams) -> SearchAnswer:
    """Messages and titles that hold all words of the query, titles first, then the newest.

    Case and accents do not matter, and the last word may be unfinished. Signs have no meaning. What a rewind or a reset took
    out of a conversation is not found.
    """
    hits = await db.read(search, call.user, params.query, limit=params.limit, own=params.own)
    return SearchAnswer(results=[_result(hit, call.user.pk) for hit in hits])


def _result(hit: Hit, user_pk: int) -> Result:
    result = Result(
        sessionKey=hit.session.key_for(user_pk),
        sessionId=str(hit.session.generation_id),
        title=hit.session.label or hit.session.title or None,
        messageId=hit.message_id,
        role=hit.role,
        snippet=hit.snippet.text,
        matches=hit.snippet.matches,
        timestamp=hit.timestamp,
    )
    if hit.sender:
        result["sender"] = hit.sender
    return result
