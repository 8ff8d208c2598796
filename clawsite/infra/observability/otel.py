"""Spans of the OpenTelemetry SDK. Only `tracing` imports this module, and only if the environment sets an endpoint."""

import os
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags, set_span_in_context

from clawsite.infra.version import version

KINDS = {"server": SpanKind.SERVER, "internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}


class Tracer:
    """Sends spans in batches in the background. Spans that can't be sent are dropped."""

    def __init__(self, role: str) -> None:
        resource: dict[str, str | int] = {"service.version": version(), "process.pid": os.getpid(), "clawsite.role": role}
        if not os.environ.get("OTEL_SERVICE_NAME") and "service.name" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
            resource["service.name"] = "clawsite"
        self._provider = TracerProvider(resource=Resource.create(resource))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("clawsite", version())

    def begin(self, name: str, parent: str, attributes: Any, kind: str) -> "OtelSpan":
        # Always an explicit context: without a parent, a span starts a new trace, even if a library left a context in this task.
        context = set_span_in_context(NonRecordingSpan(_parse_context(parent)) if parent else NonRecordingSpan(_NO_PARENT))
        return OtelSpan(self._tracer.start_span(name, context, kind=KINDS[kind], attributes=attributes))

    def close(self) -> None:
        self._provider.shutdown()


class OtelSpan:
    def __init__(self, span: Any) -> None:
        self._span = span
        context = span.get_span_context()
        self.header = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def set_attributes(self, attributes: Any) -> None:
        self._span.set_attributes(attributes)

    def set_failed(self, reason: str) -> None:
        self._span.set_status(Status(StatusCode.ERROR, reason))

    def end(self) -> None:
        self._span.end()


_NO_PARENT = SpanContext(0, 0, is_remote=False)


def _parse_context(header: str) -> SpanContext:
    _version, trace, span, flags = header.split("-")
    return SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16)))
