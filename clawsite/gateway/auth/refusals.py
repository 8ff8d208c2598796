"""Rejected handshakes: the error frame and the close code, in the form OpenClaw's clients expect."""

from typing import Any

from clawsite.gateway.protocol.errors import CloseCode, error_shape
from clawsite.infra.errors import InvalidRequest

NOT_PAIRED = "NOT_PAIRED"


class HandshakeRejected(Exception):
    """Ends the handshake with an error frame and a close code."""

    def __init__(self, message: str, *, close: CloseCode = CloseCode.POLICY, error: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.error = error or error_shape(InvalidRequest.code, message)
        self.close = close
        self.reason = message


def reject_unauthorized(reason: str, code: str, *, retry_after_ms: int | None = None, **details: Any) -> HandshakeRejected:
    message = f"unauthorized: {reason}"
    shape = error_shape(
        InvalidRequest.code,
        message,
        details={"code": code, **details},
        retryable=retry_after_ms is not None,
        retry_after_ms=retry_after_ms,
    )
    return HandshakeRejected(message, error=shape)


def reject_device(message: str, code: str) -> HandshakeRejected:
    return HandshakeRejected(message, error=error_shape(InvalidRequest.code, message, details={"code": code}))


def reject_unpaired(message: str, code: str, **details: Any) -> HandshakeRejected:
    return HandshakeRejected(message, error=error_shape(NOT_PAIRED, message, details={"code": code, **details}))
