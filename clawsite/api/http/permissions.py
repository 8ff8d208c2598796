"""How an operation of the REST API says which scope it needs: `auth=needs(Scope.READ)`.

One that changes something also says what it is for tokens with tool limits.
"""

from functools import partial
from typing import Any, cast

from django.http import HttpRequest

from clawsite.api.http.authentication import Caller, authenticate
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule, check_limited_token
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra.bounded_json import read_json
from clawsite.infra.request_body import METHODS_WITHOUT_BODY, parse_body

MAX_FORM_BYTES = 64 << 10  # bytes
MAX_MESSAGE_BYTES = 2 << 20
MAX_VALUES = 1_000  # a message with all its attachments has a tenth of it


class ApiRequest(HttpRequest):
    """What `needs` leaves: who it is, and what was sent, for the parser (api.app)."""

    auth: Caller
    given: Any
    _body: bytes  # Django's own name for it


class RequireScope:  # reads as a word where it is used
    """One of these scopes, and a body of at most so many bytes. The OpenAPI document names the first scope."""

    is_async = True

    def __init__(self, *any_of: Scope, limited: LimitedTokenRule | None = None, max_bytes: int = MAX_FORM_BYTES) -> None:
        if (limited is None) != (Scope.READ in any_of):
            raise ValueError("an operation that changes something says what it is for tokens with tool limits (limited=)")
        self.scopes, self.limited = any_of, limited
        self.max_bytes = max_bytes

    async def __call__(self, request: HttpRequest) -> Caller:
        """The body is read once it is known who sends it, and understood here, where that can wait for a thread."""
        who = await authenticate(request, *self.scopes)
        check_limited_token(who.user, self.limited, "this operation")
        if request.method not in METHODS_WITHOUT_BODY:
            await parse_body(request, self.max_bytes, partial(_attach_body, cast(ApiRequest, request)))
        return who


def _attach_body(request: ApiRequest, body: bytes) -> None:
    """An operation that needs a body, and gets an empty one, says so itself."""
    request._body = body
    request.given = read_json(body, MAX_VALUES) if body else None
