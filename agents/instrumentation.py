"""Metrics and traces of a run: the run itself, each model call attempt and each tool call.

Spans hold names, numbers and IDs only, never message text. Without tracing, only metrics are recorded.
"""

import time
from dataclasses import replace

from agents.llm.base import FailureKind, ModelRequest, Usage
from agents.llm.catalog import ResolvedModel
from clawsite.infra.observability import metrics, tracing
from clawsite.infra.observability.tracing import Span
from sessions_app.runs.queue import ClaimedRun
from tools_app.core.definition import ToolDeferred, ToolEnded, ToolEvent, ToolStarted

DEFERRED_OUTCOME = "deferred"  # the result comes later
STOPPED_OUTCOME = "stopped"  # canceled by us: the run was stopped or handed over


def start_run_span(claimed: ClaimedRun) -> Span:
    """Start a span for one worker's lease of the run, as a child of the request that started the run."""
    known: dict[str, str | int] = {"clawsite.run": claimed.pk, "clawsite.agent": claimed.agent, "clawsite.lane": claimed.lane}
    parent = tracing.clean_header(claimed.request.traceparent)
    return tracing.start_span("run", parent, known | {"clawsite.rescues": claimed.rescues})


class ModelInstrumentation:
    """Observes the attempts of one model call."""

    def __init__(self, model: ResolvedModel, parent: str) -> None:
        self._model, self._parent = model, parent
        self._span: Span | None = None
        self._began = 0.0

    def begin(self, request: ModelRequest, attempt: int) -> ModelRequest:
        """Start an attempt; return the request with the trace header of its span, if tracing is enabled."""
        known: dict[str, str | int] = {"gen_ai.provider.name": self._model.provider, "gen_ai.request.model": self._model.model}
        self._span = tracing.start_span("model call", self._parent, known | {"clawsite.attempt": attempt}, kind="client")
        self._began = time.perf_counter()
        return replace(request, traceparent=self._span.header) if tracing.is_enabled() else request

    def succeeded(self, usage: Usage) -> None:
        provider = self._model.provider
        for kind, count in (("input", usage.input_tokens), ("output", usage.output_tokens), ("cache_read", usage.cache_read)):
            metrics.model_tokens.labels(provider, kind).inc(count)
        if self._span:
            self._span.set_attributes(
                {"gen_ai.usage.input_tokens": usage.input_tokens, "gen_ai.usage.output_tokens": usage.output_tokens}
            )
        self._end("ok")

    def failed(self, kind: FailureKind) -> None:
        if self._span:
            self._span.set_failed(kind)
        self._end(kind)

    async def aclose(self) -> None:
        """Record a canceled attempt; does nothing if the attempt has ended."""
        if self._span:
            self._end(STOPPED_OUTCOME)

    def _end(self, outcome: str) -> None:
        provider = self._model.provider
        metrics.model_calls.labels(provider, outcome).inc()
        metrics.model_seconds.labels(provider).observe(time.perf_counter() - self._began)
        if self._span:
            self._span.end()
            self._span = None


class ToolInstrumentation:
    """Observes the tool calls of one turn."""

    def __init__(self, parent: str) -> None:
        self._parent = parent
        self._open: dict[str, tuple[Span, float]] = {}

    def observe(self, event: ToolEvent) -> None:
        match event:
            case ToolStarted(call):
                known = {"gen_ai.tool.name": call.name, "gen_ai.tool.call.id": call.id}
                self._open[call.id] = tracing.start_span("tool call", self._parent, known), time.perf_counter()
            case ToolEnded(call, result):
                self._end(call.id, "error" if result.is_error else "ok")
            case ToolDeferred(call):
                self._end(call.id, DEFERRED_OUTCOME)

    async def aclose(self) -> None:
        for call_id in list(self._open):
            self._end(call_id, STOPPED_OUTCOME)

    def _end(self, call_id: str, outcome: str) -> None:
        span, began = self._open.pop(call_id, (None, 0.0))
        if span is None:  # denied before it started
            return
        metrics.tool_calls.labels(outcome).inc()
        metrics.tool_seconds.observe(time.perf_counter() - began)
        if outcome not in ("ok", DEFERRED_OUTCOME):
            span.set_failed(outcome)
        span.end()
