"""Connect to an MCP server by URL: the SDK's streamable HTTP, with a limit on the size of one response.

The operator chooses the URL, so hosts on the internal network are allowed.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

MAX_RESPONSE_BYTES = 16 * 1024 * 1024  # for one JSON response, and for one event of a stream
CONNECT_TIMEOUT_SECONDS = 30.0


class ResponseTooLarge(httpx2.StreamError):
    """The response is too large, or its size can't be checked. The SDK reports this to the waiting call as an error."""


class _SizeLimitedStream(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > MAX_RESPONSE_BYTES:
                raise ResponseTooLarge(f"the response is larger than {MAX_RESPONSE_BYTES // 1024 // 1024} MB")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _limit_size(response: httpx2.Response) -> None:
    """Limit the size of a response. Event streams have no overall limit; the SDK limits each event."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise ResponseTooLarge("the response is compressed although not requested, so its size can't be checked")
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    if not is_stream and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _SizeLimitedStream(response.stream)


@cache
def _ssl_context() -> ssl.SSLContext:
    """Return a cached context, because loading all certificates takes 150 ms per connection attempt."""
    return httpx2.create_ssl_context()


@asynccontextmanager
async def open_http_transport(url: str, headers: Mapping[str, str]) -> AsyncGenerator[TransportStreams, None]:
    # No read timeout: calls have their own, and an event stream is silent while nothing happens.
    timeout = httpx2.Timeout(CONNECT_TIMEOUT_SECONDS, read=None)
    headers = {**headers, "accept-encoding": "identity"}
    trusted = await asyncio.to_thread(_ssl_context)
    async with (
        httpx2.AsyncClient(verify=trusted, headers=headers, timeout=timeout, event_hooks={"response": [_limit_size]}) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_RESPONSE_BYTES) as streams,
    ):
        yield streams
