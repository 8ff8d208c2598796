"""W3C trace context, and OpenTelemetry spans where the standard variables ask for them. Needs no Django.

    OTEL_EXPORTER_OTLP_ENDPOINT (or …_TRACES_ENDPOINT)   where spans are sent, over HTTP
    OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_SDK_DISABLED, …   as the SDK reads them

Without an endpoint the SDK is not even imported: a `traceparent` that somebody sends is kept with the run and shown, and nothing
else happens. Attributes of spans are names, numbers and ids of ours, never a text, an argument or a secret.
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

# Version 00; a later one may say more behind it. Neither id may be all zeros.
_HEADER_PATTERN = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")

_current: ContextVar[str] = ContextVar("traceparent", default="")


def clean_header(header: Any) -> str:
    """The header as we pass it on; empty if it is none."""
    found = _HEADER_PATTERN.fullmatch(header.strip().lower()) if isinstance(header, str) and len(header) <= 512 else None
    if not found or found[1] == "ff" or (found[1] == "00" and found[5]) or not (int(found[2], 16) and int(found[3], 16)):
        return ""
    return f"00-{found[2]}-{found[3]}-{found[4]}"


def current_traceparent() -> str:
    """The `traceparent` of what is being done now; empty outside of any trace."""
    return _current.get()


def set_traceparent(header: str) -> None:
    """For the rest of this task, and the tasks it starts."""
    _current.set(header)


def parse_trace_id(header: str) -> str:
    return header[3:35]


class Span(Protocol):
    """Something that takes time. `header` names it as the parent of what it causes."""

    @property
    def header(self) -> str: ...
    def rename(self, name: str) -> None: ...
    def note(self, attributes: Attributes) -> None: ...
    def failed(self, why: str) -> None: ...
    def end(self) -> None: ...


class _NoSpan:
    """No span: what comes later belongs to the same parent."""

    def __init__(self, header: str) -> None:
        self.header = header

    def rename(self, name: str) -> None: ...
    def note(self, attributes: Attributes) -> None: ...
    def failed(self, why: str) -> None: ...
    def end(self) -> None: ...


_tracer: Any = None  # clawsite.infra.observability.otel.Tracer, once there is an endpoint


def is_enabled() -> bool:
    return _tracer is not None


def start_span(name: str, parent: str = "", attributes: Attributes | None = None, *, kind: SpanKind = "internal") -> Span:
    """A span that somebody must end; without tracing, only its parent."""
    if _tracer is None:
        return _NoSpan(parent)
    span: Span = _tracer.begin(name, parent, attributes or {}, kind)
    return span


@contextmanager
def trace_request(name: str, header: Any, attributes: Attributes | None = None) -> Iterator[Span]:
    """Around the answer to a request that came with this header, or with none."""
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
    """Send spans while a process works, if the environment says where to; what waits at the end is sent too."""
    global _tracer
    _tracer = _make_tracer(role)
    try:
        yield
    finally:
        tracer, _tracer = _tracer, None
        if tracer is not None:
            tracer.close()


def _make_tracer(role: str) -> Any:
    wanted = any(os.environ.get(name) for name in ENDPOINTS) and os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "none"
    if not wanted or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from clawsite.infra.observability.otel import Tracer
    except ImportError as missing:
        log.warning("OpenTelemetry has an endpoint, but is not installed (%s): %s", missing.name, INSTALL_HINT)
        return None
    log.info("spans are sent to the OpenTelemetry endpoint")
    return Tracer(role)
