"""Declare the scope of a REST operation: `auth=RequireScope(Scope.READ)`.

Operations that change something also declare how they treat tokens with tool limits.
"""

from functools import partial
from typing import Any, cast

from django.http import HttpRequest

from clawsite.api.http.authentication import Caller, authenticate
from clawsite.gateway.auth.limited_tokens import LimitedTokenRule, check_limited_token
from clawsite.gateway.protocol.scopes import Scope
from clawsite.infra.bounded_json import read_json
from clawsite.infra.request_body import METHODS_WITHOUT_BODY, parse_body

MAX_FORM_BYTES = 64 << 10
MAX_MESSAGE_BYTES = 2 << 20
MAX_VALUES = 1_000  # ten times as many as in a message with the maximum number of attachments


class ApiRequest(HttpRequest):
    """A request after RequireScope: with the caller, and the parsed body for the parser in `clawsite.api.rest.app`."""

    auth: Caller
    parsed_body: Any
    _body: bytes  # Django's attribute


class RequireScope:
    """Requires one of these scopes and limits the body size. The OpenAPI document lists the first scope."""

    is_async = True

    def __init__(self, *any_of: Scope, limited: LimitedTokenRule | None = None, max_bytes: int = MAX_FORM_BYTES) -> None:
        if (limited is None) != (Scope.READ in any_of):
            raise ValueError("operations that change something must set limited= for tokens with tool limits")
        self.scopes, self.limited = any_of, limited
        self.max_bytes = max_bytes

    async def __call__(self, request: HttpRequest) -> Caller:
        """Authenticate, then read and parse the body. Parse it here, because parsing may have to wait for a thread."""
        caller = await authenticate(request, *self.scopes)
        check_limited_token(caller.user, self.limited, "this operation")
        if request.method not in METHODS_WITHOUT_BODY:
            await parse_body(request, self.max_bytes, partial(_attach_body, cast(ApiRequest, request)))
        return caller


def _attach_body(request: ApiRequest, body: bytes) -> None:
    """Parse the body, if any. An operation that requires one rejects an empty body itself."""
    request._body = body
    request.parsed_body = read_json(body, MAX_VALUES) if body else None
