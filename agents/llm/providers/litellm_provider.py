"""Reach all providers that are not used directly, through litellm. This is the only module that imports it.

The import takes 3.4 s and 173 MB, so it happens on first use, in a thread. litellm's retries, callbacks, price download and .env
reading are off: `agents.llm.retry` retries, and settings come from the environment.
"""

import asyncio
import os
import re
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import cache
from typing import Any

from agents.llm.base import FailureKind, ModelRequest, ProviderError, StreamEvent
from agents.llm.failures import classify_status, classify_text, parse_retry_after, shorten_message
from agents.llm.providers.chat_format import AnswerAssembler, to_wire_messages, to_wire_tools
from agents.llm.providers.dialect import EndpointDialect
from agents.llm.providers.parameters import build_chat_parameters

# "litellm.RateLimitError: RateLimitError: OpenAIException - the text"
ERROR_PREFIXES = re.compile(r"^(?:(?:litellm\.)?\w*(?:Error|Exception|Timeout)(?:: | - |\.\s*))+")
DISCONNECT_PHRASES = ("payload is not completed", "peer closed", "incomplete chunked read", "connection reset", "disconnected")
THOUGHT_SIGNATURE = (
    "__thought__"  # litellm appends this and a Gemini signature (kilobytes) to call IDs; if stripped, it sends a placeholder
)


def import_in_background() -> None:
    """Start the import in the background."""
    threading.Thread(target=_import_litellm, name="litellm-import", daemon=True).start()


@cache
def _import_litellm() -> Any:
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # otherwise the import downloads prices
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")  # otherwise the first call downloads these headers
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # otherwise litellm reads a .env file from the working directory
    import litellm

    litellm.suppress_debug_info = True  # otherwise litellm prints to the terminal on errors
    litellm.telemetry = False
    litellm.drop_params = True  # drop what a model does not support (reasoning_effort)
    litellm.modify_params = True  # and adapt requests to provider requirements (a first user message, no thinking)
    return litellm


class LiteLLMProvider:
    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        answer = AnswerAssembler(secret=request.credentials.api_key)
        async with aclosing(_stream_chunks(request)) as chunks:
            async for chunk in chunks:
                answer.read(_chunk_to_dict(chunk))
                for event in answer.take_events():
                    yield event
        yield answer.finished()

    async def aclose(self) -> None:
        if _import_litellm.cache_info().currsize:
            await _import_litellm().close_litellm_async_clients()


async def _stream_chunks(request: ModelRequest) -> AsyncGenerator[Any, None]:
    """Yield litellm's chunks within our timeouts, converting its exceptions."""
    litellm = await asyncio.to_thread(_import_litellm)
    response: Any = None
    try:
        async with asyncio.timeout(request.timeouts.first_byte):
            response = await litellm.acompletion(**_build_parameters(request))
            chunk = await anext(response, None)
        while chunk is not None:
            yield chunk
            async with asyncio.timeout(request.timeouts.between_chunks):
                chunk = await anext(response, None)
    except TimeoutError as error:
        raise ProviderError(FailureKind.TIMEOUT, "the model stopped sending data (timeout)") from error
    except Exception as error:  # adapters raise any exception of the provider's library
        raise to_provider_error(error, secret=request.credentials.api_key) from error
    finally:
        if response is not None:
            await response.aclose()


def _build_parameters(request: ModelRequest) -> dict[str, Any]:
    timeouts = request.timeouts
    parameters: dict[str, Any] = {
        "model": request.model,
        "messages": to_wire_messages(request, EndpointDialect()),
        "stream": True,
        "stream_options": {"include_usage": True},
        "num_retries": 0,
        "max_retries": 0,
        # Our own timeouts fire first; this one only makes sure that nothing waits forever.
        "timeout": timeouts.first_byte + timeouts.between_chunks,
    }
    if request.tools:
        parameters["tools"] = to_wire_tools(request.tools)
        # With tools, litellm imports its proxy server to look for MCP servers, which needs packages that are not installed.
        parameters["_skip_mcp_handler"] = True
    if request.thinking not in ("", "off"):
        parameters["reasoning_effort"] = request.thinking
    if request.credentials.api_key:
        parameters["api_key"] = request.credentials.api_key
    if request.traceparent:
        parameters["extra_headers"] = {"traceparent": request.traceparent}
    if request.credentials.base_url:
        parameters["api_base"] = request.credentials.base_url
    return parameters | build_chat_parameters(request.parameters, EndpointDialect(), with_tools=bool(request.tools))


def _chunk_to_dict(chunk: Any) -> dict[str, Any]:
    """Return what `AnswerAssembler` reads from a chunk. Not model_dump, which costs more than everything else together."""
    read: dict[str, Any] = {"choices": []}
    if chunk.choices:
        choice = chunk.choices[0]
        delta = choice.delta
        calls = [call if isinstance(call, dict) else call.model_dump() for call in delta.tool_calls or ()]
        for call in calls:
            call["id"] = (call.get("id") or "").partition(THOUGHT_SIGNATURE)[0]
        thought = getattr(delta, "reasoning_content", None)
        read["choices"] = [
            {
                "delta": {"content": delta.content, "reasoning_content": thought, "tool_calls": calls},
                "finish_reason": choice.finish_reason,
            }
        ]
    if usage := getattr(chunk, "usage", None):
        read["usage"] = usage.model_dump()
    return read


def to_provider_error(error: Exception, *, secret: str) -> ProviderError:
    """Convert by status and text. Connection and stream errors have a made-up status, so only their text counts."""
    if type(error).__name__ == "MidStreamFallbackError":
        error = getattr(error, "original_exception", None) or error
    text = ERROR_PREFIXES.sub("", getattr(error, "message", "") or str(error))
    haystack = f"{getattr(error, 'code', '')} {text}".lower()
    status = getattr(error, "status_code", None)
    match type(error).__name__:
        case "Timeout":
            kind = FailureKind.TIMEOUT
        case "ContextWindowExceededError":
            kind = FailureKind.CONTEXT_OVERFLOW
        case "APIConnectionError":
            status = None
            kind = FailureKind.CUT if any(broken in haystack for broken in DISCONNECT_PHRASES) else classify_text(haystack)
        case _ if status:
            kind = classify_status(int(status), haystack)
        case _:  # not from the provider: a missing package or an unknown model name
            kind = FailureKind.FORMAT
    shown = shorten_message(text, secret=secret) or type(error).__name__
    headers = getattr(error, "litellm_response_headers", None) or getattr(getattr(error, "response", None), "headers", None) or {}
    return ProviderError(
        kind, f"{shown} (HTTP {status})" if status else shown, status=status, retry_after=parse_retry_after(headers)
    )
