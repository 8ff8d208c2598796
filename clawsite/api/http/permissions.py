"""How an operation of the REST API says which scope it needs: `auth=needs(Scope.READ)`.

One that changes something also says what it is for tokens with tool limits.
"""

from functools import partial
from typing import Any, cast

from django.http import HttpRequest

from clawsite.api.http.authentication import Caller, identified
from clawsite.gateway.auth.limited_tokens import Limited, check
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra.bounded_json import read_json
from clawsite.infra.request_body import WITHOUT_BODY, understood

FORM = 64 << 10  # bytes
MESSAGE = 2 << 20
MOST_VALUES = 1_000  # a message with all its attachments has a tenth of it


class ApiRequest(HttpRequest):
    """What `needs` leaves: who it is, and what was sent, for the parser (api.app)."""

    auth: Caller
    given: Any
    _body: bytes  # Django's own name for it


class needs:  # reads as a word where it is used
    """One of these scopes, and a body of at most so many bytes. The OpenAPI document names the first scope."""

    is_async = True

    def __init__(self, *any_of: Scope, limited: Limited | None = None, most: int = FORM) -> None:
        if (limited is None) != (Scope.READ in any_of):
            raise ValueError("an operation that changes something says what it is for tokens with tool limits (limited=)")
        self.scopes, self.limited = any_of, limited
        self.most = most

    async def __call__(self, request: HttpRequest) -> Caller:
        """The body is read once it is known who sends it, and understood here, where that can wait for a thread."""
        who = await identified(request, *self.scopes)
        check(who.user, self.limited, "this operation")
        if request.method not in WITHOUT_BODY:
            await understood(request, self.most, partial(_keep, cast(ApiRequest, request)))
        return who


def _keep(request: ApiRequest, body: bytes) -> None:
    """An operation that needs a body, and gets an empty one, says so itself."""
    request._body = body
    request.given = read_json(body, MOST_VALUES) if body else None
