"""Map a provider's HTTP status and error text to a failure kind. Pure; shared by all HTTP providers."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from agents.llm.base import FailureKind, ProviderError

MAX_MESSAGE_LENGTH = 300

# Provider error texts for a prompt that is too long, in lower case; most providers have no error code for it.
OVERFLOW_PHRASES = (
    "context_length_exceeded",
    "context length",
    "context window",
    "exceed_context_size",
    "available context size",
    "maximum number of tokens",
    "maximum prompt length",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "input token count",
    "reduce the length of the messages",
    "request_too_large",
)
BILLING_PHRASES = (
    "insufficient_quota",
    "exceeded your current quota",
    "credit balance",
    "insufficient balance",
    "billing_hard_limit",
)
RATE_LIMIT_PHRASES = ("rate_limit", "rate limit", "too many requests", "resource_exhausted")
AUTH_PHRASES = ("invalid_api_key", "authentication_error", "permission_error", "incorrect api key")
UNAVAILABLE_PHRASES = ("overloaded", "server_error", "internal error", "unavailable", "api_error")
TIMEOUT_PHRASES = ("timeout", "timed out", "deadline")

# API keys in the formats of common providers, and whatever follows the word Bearer.
SECRET_PATTERN = re.compile(r"\b(?:sk|pk|gsk|xai|pplx|csk|fw|hf|r8|nvapi|AIza)[-_]?[A-Za-z0-9*][\w*.-]{10,}|(?<=[Bb]earer )\S+")


def error_from_response(status: int, body: bytes, headers: Mapping[str, str], *, secret: str = "") -> ProviderError:
    """Turn an HTTP error response into a ProviderError."""
    text, codes = _read_body(body)
    kind = classify_status(status, f"{codes} {text}".lower())
    shown = shorten_message(text, secret=secret) or "no explanation given"
    return ProviderError(kind, f"{shown} (HTTP {status})", status=status, retry_after=parse_retry_after(headers))


def error_from_stream(error: Any, *, secret: str = "") -> ProviderError:
    """Turn an error object inside the stream into a ProviderError; some have an HTTP status as their code."""
    text, codes = _read_error(error)
    haystack = f"{codes} {text}".lower()
    status = next((int(word) for word in codes.split() if word.isdigit() and 400 <= int(word) <= 599), None)
    kind = classify_status(status, haystack) if status else classify_text(haystack)
    return ProviderError(
        kind, shorten_message(text, secret=secret) or "the model reported an error without a message", status=status
    )


def classify_status(status: int, text: str) -> FailureKind:
    """Classify by status, or by `text`, the provider's message in lower case, where a status has several meanings."""
    match status:
        case 401 | 403:
            return FailureKind.AUTH
        case 402:
            return FailureKind.BILLING
        case 429:
            return FailureKind.BILLING if _contains_any(text, BILLING_PHRASES) else FailureKind.RATE_LIMIT
        case 408 | 504:
            return FailureKind.TIMEOUT
    # llama.cpp has reported an overflow as 500, Anthropic an exhausted balance as 400.
    if _contains_any(text, OVERFLOW_PHRASES) or status == 413:
        return FailureKind.CONTEXT_OVERFLOW
    if _contains_any(text, BILLING_PHRASES):
        return FailureKind.BILLING
    return FailureKind.UNAVAILABLE if status >= 500 else FailureKind.FORMAT


def classify_text(text: str) -> FailureKind:
    """Classify by text alone, without a status; unknown messages count as a provider outage."""
    table = (
        (OVERFLOW_PHRASES, FailureKind.CONTEXT_OVERFLOW),
        (BILLING_PHRASES, FailureKind.BILLING),
        (RATE_LIMIT_PHRASES, FailureKind.RATE_LIMIT),
        (AUTH_PHRASES, FailureKind.AUTH),
        (UNAVAILABLE_PHRASES, FailureKind.UNAVAILABLE),
        (TIMEOUT_PHRASES, FailureKind.TIMEOUT),
        (("invalid_request", "badrequest", "bad request"), FailureKind.FORMAT),
    )
    return next((kind for needles, kind in table if _contains_any(text, needles)), FailureKind.UNAVAILABLE)


def shorten_message(text: str, *, secret: str = "") -> str:
    """Return one line of at most 300 characters without keys, because it is shown to users and logged."""
    if secret:
        text = text.replace(secret, "[key]")
    text = SECRET_PATTERN.sub("[key]", " ".join(text.split()))
    return text if len(text) <= MAX_MESSAGE_LENGTH else text[: MAX_MESSAGE_LENGTH - 1] + "…"


def _contains_any(text: str, needles: tuple[str, ...]) -> bool:
    return any(needle in text for needle in needles)


def _read_body(body: bytes) -> tuple[str, str]:
    try:
        return _read_error(orjson.loads(body))
    except orjson.JSONDecodeError:
        text = body.decode("utf-8", "replace")
        return ("" if "<html" in text[:500].lower() else text), ""


def _read_error(error: Any) -> tuple[str, str]:
    """Return (message, codes) from the known error shapes: {error: {message}}, {error: text}, {message}, {detail}, [{error}]."""
    match error:
        case str():
            return error, ""
        case [first, *_]:
            return _read_error(first)
        case {"error": dict() | str() | list() as inner}:
            return _read_error(inner)
        case dict():
            text = next((error[key] for key in ("message", "detail", "msg") if error.get(key)), "")
            text = text if isinstance(text, str) else orjson.dumps(text, default=str).decode()
            return text, " ".join(str(error[key]) for key in ("code", "type", "status") if error.get(key))
    return "", ""


def parse_retry_after(headers: Mapping[str, str]) -> float | None:
    for name, unit in (("retry-after-ms", 1000.0), ("Retry-After", 1.0)):
        value = headers.get(name, "")
        try:
            return max(0.0, float(value) / unit)
        except ValueError:
            pass
        if value:
            try:
                return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
            except (ValueError, TypeError):  # TypeError: a date without a time zone
                pass
    return None
