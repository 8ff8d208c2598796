"""W3C trace context, and OpenTelemetry spans if the standard variables are set. Needs no Django.

    OTEL_EXPORTER_OTLP_ENDPOINT (or …_TRACES_ENDPOINT)   the URL to send spans to, over HTTP
    OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_SDK_DISABLED, …   as defined by the SDK

Without an endpoint, the SDK is not imported: a client's `traceparent` is only stored with the run and shown. Span
attributes are internal names, numbers and IDs, never texts, arguments or secrets.
"""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, Protocol

log = logging.getLogger(__name__)

SpanKind = Literal["server", "internal", "client"]
Attributes = Mapping[str, str | int | float | bool]

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
INSTALL_HINT = "pip install 'clawsite[otel]'"

# Version 00; later versions may append more. Neither id may be all zeros.
_HEADER_PATTERN = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")

_current: ContextVar[str] = ContextVar("traceparent", default="")


def clean_header(header: Any) -> str:
    """Return the header as version 00, or "" if it is invalid."""
    match = _HEADER_PATTERN.fullmatch(header.strip().lower()) if isinstance(header, str) and len(header) <= 512 else None
    if not match or match[1] == "ff" or (match[1] == "00" and match[5]) or not (int(match[2], 16) and int(match[3], 16)):
        return ""
    return f"00-{match[2]}-{match[3]}-{match[4]}"


def current_traceparent() -> str:
    """Return the `traceparent` of the current task, or "" outside of a trace."""
    return _current.get()


def set_traceparent(header: str) -> None:
    """Set the `traceparent` for the rest of this task and the tasks it starts."""
    _current.set(header)


def parse_trace_id(header: str) -> str:
    return header[3:35]


class Span(Protocol):
    """A traced operation. `header` is the `traceparent` for its children."""

    @property
    def header(self) -> str: ...
    def rename(self, name: str) -> None: ...
    def set_attributes(self, attributes: Attributes) -> None: ...
    def set_failed(self, reason: str) -> None: ...
    def end(self) -> None: ...


class _NoSpan:
    """Placeholder when tracing is off: children get the same parent."""

    def __init__(self, header: str) -> None:
        self.header = header

    def rename(self, name: str) -> None: ...
    def set_attributes(self, attributes: Attributes) -> None: ...
    def set_failed(self, reason: str) -> None: ...
    def end(self) -> None: ...


_tracer: Any = None  # clawsite.infra.observability.otel.Tracer, if there is an endpoint


def is_enabled() -> bool:
    return _tracer is not None


def start_span(name: str, parent: str = "", attributes: Attributes | None = None, *, kind: SpanKind = "internal") -> Span:
    """Start a span, which the caller must end. If tracing is off, return a placeholder with the same parent."""
    if _tracer is None:
        return _NoSpan(parent)
    span: Span = _tracer.begin(name, parent, attributes or {}, kind)
    return span


@contextmanager
def trace_request(name: str, header: Any, attributes: Attributes | None = None) -> Iterator[Span]:
    """Trace the handling of a request with this `traceparent` header, if any."""
    parent = clean_header(header) if header else ""
    if _tracer is None and not parent:
        yield _NO_SPAN
        return
    span = start_span(name, parent, attributes, kind="server")
    token = _current.set(span.header)
    try:
        yield span
    finally:
        _current.reset(token)
        span.end()


_NO_SPAN = _NoSpan("")


@contextmanager
def export_spans(role: str) -> Iterator[None]:
    """Export spans while the process runs, if the environment sets an endpoint. Flush them at the end."""
    global _tracer
    _tracer = _make_tracer(role)
    try:
        yield
    finally:
        tracer, _tracer = _tracer, None
        if tracer is not None:
            tracer.close()


def _make_tracer(role: str) -> Any:
    enabled = any(os.environ.get(name) for name in ENDPOINTS) and os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "none"
    if not enabled or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from clawsite.infra.observability.otel import Tracer
    except ImportError as missing:
        log.warning("an OpenTelemetry endpoint is set, but %s is not installed: %s", missing.name, INSTALL_HINT)
        return None
    log.info("sending spans to the OpenTelemetry endpoint")
    return Tracer(role)
