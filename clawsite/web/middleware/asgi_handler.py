"""Django's ASGI handler, except that some views read their request body themselves: see clawsite.infra.request_body."""

import io
from collections.abc import Mapping
from typing import Any

from django.core.handlers.asgi import ASGIHandler

from clawsite.infra.request_body import SCOPE_KEY, DeferredBody


class LazyBodyHandler(ASGIHandler):
    async def read_body(self, receive: Any) -> Any:
        return io.BytesIO() if isinstance(receive, DeferredBody) else await super().read_body(receive)

    def create_request(self, scope: Mapping[str, Any], body_file: Any) -> Any:
        request, rejection = super().create_request(scope, body_file)
        if request is not None and SCOPE_KEY in scope:
            # Mark the body as read, so that nothing, including the CSRF check, parses a form before it has arrived.
            request._read_started = True  # type: ignore[attr-defined]  # not in the stubs
        return request, rejection
