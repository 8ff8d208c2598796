"""Errors on the wire: which code a failure has, and why a connection is closed."""

import logging
import secrets
from enum import IntEnum
from typing import Any

from django.db import DatabaseError

from clawsite.infra import db
from clawsite.infra.errors import ClawError, Unavailable

log = logging.getLogger(__name__)

# Every code an error frame can have, with what the caller should make of it. docs/protocol.md prints this table.
CODES = {
    "INVALID_REQUEST": "Wrong shape, wrong value, unknown method, or failed authentication. Sending it again will not help.",
    "NOT_PAIRED": "The device is not known, or not in this role: somebody has to approve the request `details.requestId`.",
    "NOT_FOUND": "It does not exist, or not for this account.",
    "CONFLICT": "The same idempotency key with another body, or a row that has changed since it was read.",
    "FORBIDDEN": "The connection lacks the scope in `details.missingScope`, or the method is for another role.",
    "QUEUE_FULL": "The account has too many unfinished runs.",
    "AGENT_TIMEOUT": "The run reached its deadline and was ended.",
    "UNAVAILABLE": "It would work later, or the run failed. Send it again if `retryable` is true, not before `retryAfterMs`.",
}


class CloseCode(IntEnum):
    """The codes with which the server closes a socket."""

    PROTOCOL = 1002
    POLICY = 1008
    TOO_BIG = 1009
    RESTART = 1012
    TRY_LATER = 1013
    AUTH_CHANGED = 4001

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    CloseCode.PROTOCOL: "No protocol version in common.",
    CloseCode.POLICY: (
        "Bad first frame, failed authentication, foreign origin, a device that is not paired, no `connect` in time, "
        "a client that reads too slowly."
    ),
    CloseCode.TOO_BIG: "A frame larger than allowed: 64 KiB before `connect`, `policy.maxPayload` after it.",
    CloseCode.RESTART: "The process ends, or the database was restored. Connect again; runs go on.",
    CloseCode.TRY_LATER: "The database cannot be reached. Connect again after `retryAfterMs`.",
    CloseCode.AUTH_CHANGED: (
        "Signed out, token revoked or expired, device revoked, or account closed. Do not connect again with the same credential."
    ),
}


class ErrorWithPayload(ClawError):
    """A failure whose error frame also carries a payload, such as the end of a failed run."""

    def __init__(self, code: str, message: str, payload: dict[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.payload = payload


def error_shape(
    code: str,
    message: str,
    *,
    details: dict[str, Any] | None = None,
    retryable: bool = False,
    retry_after_ms: int | None = None,
) -> dict[str, Any]:
    shape: dict[str, Any] = {"code": code, "message": message}
    if details is not None:
        shape["details"] = details
    if retryable:
        shape["retryable"] = True
    if retry_after_ms is not None:
        shape["retryAfterMs"] = retry_after_ms
    return shape


def describe_error(error: Exception, *, method: str) -> dict[str, Any]:
    """The error frame's `error` for whatever a handler raised. What nobody can explain is a bug: logged, and told by reference."""
    if isinstance(error, DatabaseError):
        error = db.to_claw_error(error) or error
    if isinstance(error, ClawError):
        return error_shape(
            error.code, error.message, details=error.details, retryable=error.retryable, retry_after_ms=error.retry_after_ms
        )
    reference = secrets.token_hex(4)
    log.error("internal error, reference %s", reference, exc_info=error, extra={"method": method})
    return error_shape(Unavailable.code, f"internal error (reference {reference})")
