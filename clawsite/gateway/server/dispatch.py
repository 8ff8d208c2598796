"""Dispatch request frames to methods: authorize, validate, call, respond. There is one dispatcher per connection.

Every request is a separate task, so that a call that waits for minutes never blocks the call that ends the wait. Requests that
start runs in the same session keep their order of arrival.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from typing import Any

from django.utils.translation import gettext as _
from pydantic import ValidationError

from clawsite.gateway.auth import limited_tokens
from clawsite.gateway.auth.authority import SignedOut
from clawsite.gateway.delivery.connection import Connection
from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.errors import CloseCode, ErrorWithPayload, describe_error, error_shape
from clawsite.gateway.protocol.frames import Request, encode_failure, encode_success
from clawsite.gateway.protocol.scopes import has_scope
from clawsite.gateway.server import registry
from clawsite.gateway.server.instrumentation import count_request, observe_request
from clawsite.gateway.server.languages import find_language
from clawsite.gateway.server.rate_limits import Bucket
from clawsite.gateway.server.registry import AnswerWithFollowUp, Call, Method
from clawsite.gateway.server.runtime import Runtime
from clawsite.infra import db
from clawsite.infra.errors import Forbidden, InvalidRequest, Unavailable
from clawsite.infra.observability import metrics
from clawsite.infra.validation import describe_errors, describe_first_error

log = logging.getLogger(__name__)


class Dispatcher:
    def __init__(self, connection: Connection, runtime: Runtime) -> None:
        self._connection, self._runtime = connection, runtime
        self._language = find_language(connection.locale) if connection.role == "operator" else ""
        self._bucket = Bucket(limits.requests_per_second(), limits.requests_burst())
        self._account_bucket = runtime.rates.of_account(connection.user_pk)
        self._running: set[asyncio.Task[None]] = set()
        self._following: set[asyncio.Task[None]] = set()
        self._last_in_order: dict[str, asyncio.Event] = {}
        self._answered = asyncio.Event()

    async def submit(self, request: Request) -> None:
        """Start handling a request. Called sequentially, in order of arrival."""
        await self._wait_for_room()
        with db.errors_in_language(self._language):
            error = self._check_rate_limit()
        if error:
            metrics.rate_limited.labels("socket").inc()
            self._connection.line.reply_now(self._failure(request, error))
            return
        method = registry.list_methods().get(request.method)
        if method is None:
            count_request("unknown", InvalidRequest.code)
            self._connection.line.reply_now(self._failure(request, InvalidRequest(f"unknown method: {request.method}")))
            return
        order = method.order(request.params or {}) if method.order else None
        previous, mine = self._queue_behind(order)
        _hold_task(self._running, self._respond(request, method, order, previous, mine)).add_done_callback(
            lambda _task: self._answered.set()
        )

    def cancel(self) -> None:
        """Cancel pending responses because the client has disconnected. Accepted work continues."""
        for task in [*self._running, *self._following]:
            task.cancel()

    async def _wait_for_room(self) -> None:
        """Wait for a free slot without reading more from the socket, so a burst is only read as fast as it is answered."""
        if len(self._running) < limits.MAX_REQUESTS_IN_FLIGHT:
            return
        self._answered.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limits.SLOT_SECONDS):
                await self._answered.wait()

    def _check_rate_limit(self) -> Unavailable | None:
        if wait := self._bucket.wait_ms():
            return Unavailable(_("Too many requests on this connection. Slow down."), retryable=True, retry_after_ms=wait)
        if wait := self._account_bucket.wait_ms():
            return Unavailable(_("Too many requests from this account. Slow down."), retryable=True, retry_after_ms=wait)
        if len(self._running) >= limits.MAX_REQUESTS_IN_FLIGHT:
            message = _("%(count)d requests are in flight on this connection. Wait for some responses.")
            return Unavailable(message % {"count": limits.MAX_REQUESTS_IN_FLIGHT}, retryable=True, retry_after_ms=100)
        if len(self._following) >= limits.MAX_FOLLOW_UPS:
            return Unavailable(
                _("Too many pending runs on this connection. Wait for some to end."), retryable=True, retry_after_ms=1000
            )
        return None

    def _queue_behind(self, order: str | None) -> tuple[asyncio.Event | None, asyncio.Event | None]:
        if order is None:
            return None, None
        previous, mine = self._last_in_order.get(order), asyncio.Event()
        self._last_in_order[order] = mine
        return previous, mine

    async def _respond(
        self, request: Request, method: Method, order: str | None, previous: asyncio.Event | None, mine: asyncio.Event | None
    ) -> None:
        try:
            if previous:
                await previous.wait()
            with observe_request(request, method.name), db.errors_in_language(self._language):
                result = await self._call(request, method)
        except SignedOut:
            self._connection.line.close(CloseCode.AUTH_CHANGED, "auth changed")
            return
        except Exception as error:
            await self._fail(request, error)
            return
        finally:
            if mine:
                mine.set()
                if order is not None and self._last_in_order.get(order) is mine:
                    del self._last_in_order[order]
        if isinstance(result, AnswerWithFollowUp):
            await self._succeed(request, result.first)
            _hold_task(self._following, self._send_follow_up(request.answered(), result))
        else:
            await self._succeed(request, result)

    async def _call(self, request: Request, method: Method) -> Any:
        authority = await self._connection.authority.ensure_current()
        if method.role != self._connection.role:
            raise Forbidden(f"unauthorized role: {self._connection.role}")
        if method.scopes and not has_scope(authority.scopes, *method.scopes):
            details = {"code": "MISSING_SCOPE", "missingScope": method.scopes[0], "requiredScopes": list(method.scopes)}
            raise Forbidden(f"missing scope: {' or '.join(method.scopes)}", details=details)
        limited_tokens.check_limited_token(authority.user, method.limited, method.name)
        params = request.params or {}
        if request.idempotency_key and "idempotencyKey" not in params and "idempotency_key" in method.params.model_fields:
            params = {**params, "idempotencyKey": request.idempotency_key}
        try:
            valid = method.params.model_validate(params)
        except ValidationError as error:
            raise InvalidRequest(
                f"invalid {method.name} params: {describe_first_error(error)}", details={"issues": describe_errors(error)}
            ) from error
        return await method.handler(Call(self._connection, authority, self._runtime), valid)

    async def _send_follow_up(self, request: Request, followed: AnswerWithFollowUp[Any]) -> None:
        try:
            with db.errors_in_language(self._language):
                result = await followed.follow_up()
        except Exception as error:
            await self._fail(request, error)
        else:
            if result is not None:
                await self._succeed(request, result)

    async def _succeed(self, request: Request, result: Any) -> None:
        try:
            text = encode_success(request.id, result)
        except TypeError as error:  # the result is not JSON serializable
            await self._fail(request, error)
        else:
            await self._connection.line.reply(text)

    async def _fail(self, request: Request, error: Exception) -> None:
        await self._connection.line.reply(self._failure(request, error))

    def _failure(self, request: Request, error: Exception) -> str:
        payload = error.payload if isinstance(error, ErrorWithPayload) else None
        with db.errors_in_language(self._language):
            shape = describe_error(error, method=request.method)
        if shape["code"] == Forbidden.code and self._connection.protocol == 3:  # protocol 3 clients only know five codes
            shape["code"] = InvalidRequest.code
        return encode_failure(request.id, shape, payload)


def _hold_task(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Start a task and keep a reference; a task without one may be garbage-collected before it ends."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


def bad_frame_response(id: str, message: str) -> str:
    return encode_failure(id, error_shape(InvalidRequest.code, message))
