"""Errors a caller can act on. Each carries its wire code.

Anything that is not a `ClawError` is a bug: it keeps its traceback and the caller gets UNAVAILABLE.
"""

from typing import Any


class ClawError(Exception):
    """The request can't be fulfilled; the message says what was wrong and what to do."""

    code = "INVALID_REQUEST"
    http_status = 400

    def __init__(
        self, message: str, *, details: dict[str, Any] | None = None, retryable: bool = False, retry_after_ms: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        self.retryable = retryable
        self.retry_after_ms = retry_after_ms

    @property
    def retry_headers(self) -> dict[str, str]:
        """`Retry-After` in whole seconds, rounded up; empty if the time is unknown."""
        return {"Retry-After": str(-(-self.retry_after_ms // 1000))} if self.retry_after_ms else {}


class InvalidRequest(ClawError):
    """The input has the wrong structure or an invalid value."""


class NotFound(ClawError):
    """The object doesn't exist or the caller can't see it; the two are indistinguishable."""

    code = "NOT_FOUND"
    http_status = 404


class Conflict(ClawError):
    """The same key was used with another body, or the row has changed since it was read."""

    code = "CONFLICT"
    http_status = 409


class Forbidden(ClawError):
    """The account lacks the scope or permission."""

    code = "FORBIDDEN"
    http_status = 403


class QueueFull(ClawError):
    """The owner has too many unfinished runs."""

    code = "QUEUE_FULL"
    http_status = 429


class Unavailable(ClawError):
    """Temporarily impossible: database read-only or unreachable, server draining, too many requests in flight."""

    code = "UNAVAILABLE"
    http_status = 503


class TooManyRequests(Unavailable):
    """The account exceeded its rate limit; `retry_after_ms` says when to retry."""

    http_status = 429


class TooManyAttempts(Unavailable):
    """Too many wrong passwords or tokens; `retry_after_ms` says how long to wait."""

    http_status = 429
