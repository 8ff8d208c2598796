"""A server at an address: the SDK's streamable HTTP, with a bound on what one answer may weigh.

The address is the operator's choice, so hosts of the own network are as good as any.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

MAX_RESPONSE_BYTES = 16 * 1024 * 1024  # bytes of one JSON answer, and of one event of a stream
CONNECT_TIMEOUT_SECONDS = 30.0


class ResponseTooLarge(httpx2.StreamError):
    """The SDK tells it to the waiting call as an error."""


class _SizeLimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        weight = 0
        async for piece in self._stream:
            weight += len(piece)
            if weight > MAX_RESPONSE_BYTES:
                raise ResponseTooLarge(f"the answer is larger than {MAX_RESPONSE_BYTES // 1024 // 1024} MB")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _limit_size(response: httpx2.Response) -> None:
    """Streams of events may go on for ever; the SDK bounds each event."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise ResponseTooLarge("the answer is compressed, though nobody asked for it: its size cannot be told")
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    if not is_stream and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _SizeLimitedStream(response.stream)


@cache
def _ssl_context() -> ssl.SSLContext:
    """Reading all certificates takes 150 ms, at every attempt to reach a server that is down."""
    return httpx2.create_ssl_context()


@asynccontextmanager
async def open_http_transport(url: str, headers: Mapping[str, str]) -> AsyncGenerator[TransportStreams, None]:
    # No limit on reading: a call has its own, and a stream of events is silent for as long as nothing happens.
    timeout = httpx2.Timeout(CONNECT_TIMEOUT_SECONDS, read=None)
    headers = {**headers, "accept-encoding": "identity"}
    trusted = await asyncio.to_thread(_ssl_context)
    async with (
        httpx2.AsyncClient(verify=trusted, headers=headers, timeout=timeout, event_hooks={"response": [_limit_size]}) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_RESPONSE_BYTES) as streams,
    ):
        yield streams
