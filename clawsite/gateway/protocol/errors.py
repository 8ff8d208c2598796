"""Errors on the wire: error codes and close codes."""

import logging
import secrets
from enum import IntEnum
from typing import Any

from django.db import DatabaseError
from django.utils.translation import gettext as _

from clawsite.infra import db
from clawsite.infra.errors import ClawError, Unavailable

log = logging.getLogger(__name__)

# Every code an error frame can have, with its meaning. docs/protocol.md includes this table.
CODES = {
    "INVALID_REQUEST": "Malformed request, invalid value, unknown method, or failed authentication. Retrying won't help.",
    "NOT_PAIRED": "The device is not paired, or not in this role. The pairing request `details.requestId` must be approved.",
    "NOT_FOUND": "It does not exist, or this account can't see it.",
    "CONFLICT": "The same idempotency key with a different body, or the object has changed since it was read.",
    "FORBIDDEN": "The connection lacks the scope in `details.missingScope`, or the method is for another role.",
    "QUEUE_FULL": "The account has too many unfinished runs.",
    "AGENT_TIMEOUT": "The run reached its deadline and was stopped.",
    "UNAVAILABLE": "Temporarily unavailable, or the run failed. If `retryable` is true, retry after `retryAfterMs`.",
}


class CloseCode(IntEnum):
    """Codes with which the server closes a socket."""

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
    CloseCode.PROTOCOL: "No common protocol version.",
    CloseCode.POLICY: (
        "Invalid first frame, failed authentication, disallowed origin, unpaired device, no `connect` in time, or a client that "
        "reads too slowly."
    ),
    CloseCode.TOO_BIG: "A frame larger than allowed: 64 KiB before `connect`, `policy.maxPayload` after it.",
    CloseCode.RESTART: "The process is stopping, or the database was restored. Reconnect; runs continue.",
    CloseCode.TRY_LATER: "The database is unavailable. Reconnect after `retryAfterMs`.",
    CloseCode.AUTH_CHANGED: (
        "Signed out, token revoked or expired, device revoked, or account disabled. Don't reconnect with the same credentials."
    ),
}


class ErrorWithPayload(ClawError):
    """An error whose frame also has a payload, such as the end of a failed run."""

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
    """Build the error frame's `error`. An unexpected exception is a bug: it is logged, and the client gets a reference."""
    if isinstance(error, DatabaseError):
        error = db.to_claw_error(error) or error
    if isinstance(error, ClawError):
        return error_shape(
            error.code, error.message, details=error.details, retryable=error.retryable, retry_after_ms=error.retry_after_ms
        )
    reference = secrets.token_hex(4)
    log.error("internal error, reference %s", reference, exc_info=error, extra={"method": method})
    return error_shape(Unavailable.code, _("internal error (reference %(reference)s)") % {"reference": reference})
