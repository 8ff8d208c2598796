"""OpenAI-compatible endpoints over aiohttp and server-sent events: the fast path.

Makes one attempt and has one connection pool per process. Retries and prices are handled elsewhere; see `chat_format`.
"""

import asyncio
import logging
import urllib.request
from collections.abc import AsyncGenerator
from urllib.parse import urlsplit

import aiohttp
import orjson

from agents.llm.base import FailureKind, ModelRequest, ProviderError, StreamEvent
from agents.llm.failures import error_from_response, shorten_message
from agents.llm.providers.chat_format import AnswerAssembler, build_chat_body
from agents.llm.providers.dialect import EndpointDialect, learn_from_error
from agents.llm.providers.read_timeout import TimedReader
from agents.llm.providers.responses_format import ResponsesAssembler, build_responses_body

log = logging.getLogger(__name__)

# (path, request builder, stream reader)
CHAT_COMPLETIONS = ("/chat/completions", build_chat_body, AnswerAssembler)
RESPONSES = ("/responses", build_responses_body, ResponsesAssembler)
MAX_LINE_BYTES = 16 << 20  # a server that never ends its line must not fill our memory
MAX_ERROR_BYTES = 64 << 10
AFTER_FINISH_SECONDS = 5.0  # for the usage, which comes last, and [DONE], which some servers omit
DRAIN_SECONDS = 1.0  # for the end of a body after its last event, so that the connection can be reused


class OpenAICompatProvider:
    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._session_loop: asyncio.AbstractEventLoop | None = None
        self._dialects: dict[tuple[str, str], EndpointDialect] = {}
        self._draining: set[asyncio.Task[None]] = set()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        clock = asyncio.get_running_loop().time
        deadline = clock() + request.timeouts.first_byte
        response, answer = await self._open(request, deadline)
        reader = TimedReader(response.content, deadline - clock())
        try:
            ended = response.content_type == "application/json"  # from a server that does not stream
            if ended:
                answer.read(_parse_json(await _read_all(reader, MAX_LINE_BYTES)))
            rest = b""
            while not ended:
                try:
                    chunk = await _read_chunk(reader)
                except ProviderError:
                    if answer.finish_reason:
                        break  # only the usage is missing
                    raise
                if not chunk and not rest:
                    break
                lines = (rest + (chunk or b"\n")).split(b"\n")  # the last line may be incomplete
                rest = lines.pop()
                if len(rest) > MAX_LINE_BYTES:
                    raise ProviderError(FailureKind.FORMAT, "the endpoint sent a line of more than 16 MB")
                for line in lines:
                    # Everything but data lines is a comment (OpenRouter's keep-alive) or an unused field.
                    if line.startswith(b"data:"):
                        data = line[5:].strip()
                        if data == b"[DONE]":
                            ended = True
                            break
                        if data:
                            answer.read(_parse_json(data))
                for event in answer.take_events():
                    yield event
                reader.change(AFTER_FINISH_SECONDS if answer.finish_reason else request.timeouts.between_chunks)
            if not ended and not answer.finish_reason:
                raise ProviderError(FailureKind.CUT, "the stream ended before the answer was complete")
            self._drain_in_background(response)
        except BaseException:
            response.close()  # incomplete, failed or canceled: the server must notice that the client is gone
            raise
        finally:
            reader.end()
        for event in answer.take_events():
            yield event
        yield answer.finished()

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None and self._session_loop is asyncio.get_running_loop():
            await session.close()

    async def _open(self, request: ModelRequest, deadline: float) -> tuple[aiohttp.ClientResponse, AnswerAssembler]:
        """Send the request; change and resend it if the endpoint's error shows how."""
        credentials = request.credentials
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        if credentials.api_key:
            headers["Authorization"] = f"Bearer {credentials.api_key}"
        if request.traceparent:
            headers["traceparent"] = request.traceparent
        timeout = aiohttp.ClientTimeout(total=None, connect=request.timeouts.connect)
        endpoint = (credentials.base_url, request.model)
        clock = asyncio.get_running_loop().time
        dialect = self._dialects.get(endpoint, EndpointDialect())
        while True:
            path, body_for, kind_of_answer = RESPONSES if dialect.responses else CHAT_COMPLETIONS
            url = credentials.base_url.rstrip("/") + path
            body = orjson.dumps(body_for(request, dialect))
            try:
                async with asyncio.timeout(deadline - clock()):
                    sent = self._http().post(url, data=body, headers=headers, timeout=timeout, allow_redirects=False)
                    response = await sent
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                raise _connection_error(error, url) from error
            if response.status == 200 and response.content_type != "text/html":
                self._dialects[endpoint] = dialect  # only after success: an error may have quoted the prompt and misled us
                return response, kind_of_answer(secret=credentials.api_key)
            reader = TimedReader(response.content, deadline - clock())
            try:
                refusal = await _read_all(reader, MAX_ERROR_BYTES)
            finally:
                reader.end()
                response.release()
            if response.status == 200:
                raise ProviderError(FailureKind.FORMAT, f"{_host(url)} answered with a web page: check the base URL")
            learned = (
                learn_from_error(dialect, refusal.decode("utf-8", "replace")) if response.status in (400, 404, 422, 500) else None
            )
            if learned is None:
                raise error_from_response(response.status, refusal, response.headers, secret=credentials.api_key)
            dialect = learned
            log.info("%s rejected a request for %s; retrying as %s", _host(url), request.model, dialect)

    def _http(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._session_loop is not loop:
            # No connection limit: lanes limit the runs. Proxy lookup costs a thread switch per request, so use it only if needed.
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60, ttl_dns_cache=300)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=bool(urllib.request.getproxies()))
            self._session_loop = loop
        return self._session

    def _drain_in_background(self, response: aiohttp.ClientResponse) -> None:
        """Read the end of the body in the background, so that the connection can be reused without making the caller wait."""
        if response.content.at_eof():
            response.release()
            return
        task = asyncio.create_task(_drain(response))
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)


async def _read_chunk(reader: TimedReader) -> bytes:
    """Return the next bytes; empty at the end."""
    try:
        return await reader.read()
    except TimeoutError as error:
        raise ProviderError(FailureKind.TIMEOUT, "the model stopped sending data (timeout)") from error
    except (aiohttp.ClientError, OSError) as error:
        raise ProviderError(FailureKind.CUT, "the connection was lost in the middle of the answer") from error


async def _read_all(reader: TimedReader, longest: int) -> bytes:
    body = bytearray()
    while len(body) < longest and (chunk := await _read_chunk(reader)):
        body += chunk
    return bytes(body)


async def _drain(response: aiohttp.ClientResponse) -> None:
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while await response.content.readany():
                pass
        response.release()
    except (aiohttp.ClientError, OSError, TimeoutError):
        response.close()


def _parse_json(data: bytes) -> dict[str, object]:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ProviderError(FailureKind.FORMAT, "the endpoint sent something that is not JSON") from error
    if not isinstance(value, dict):
        raise ProviderError(FailureKind.FORMAT, "the endpoint sent JSON that is not an object")
    return value


def _connection_error(error: Exception, url: str) -> ProviderError:
    host = _host(url)
    match error:
        case aiohttp.ServerDisconnectedError():
            # Usually a keep-alive connection that the server just closed: an immediate retry works.
            return ProviderError(FailureKind.CUT, f"{host} closed the connection without an answer")
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return ProviderError(FailureKind.FORMAT, f"the base URL of the model is not valid: {host or 'it is empty'}")
        case aiohttp.ConnectionTimeoutError():
            return ProviderError(FailureKind.TIMEOUT, f"no connection to {host} within the time limit")
        case TimeoutError():
            return ProviderError(FailureKind.TIMEOUT, f"no answer from {host} within the time limit")
        case aiohttp.ClientConnectorError():
            return ProviderError(FailureKind.UNAVAILABLE, f"cannot connect to {host}: {shorten_message(str(error.os_error))}")
    return ProviderError(FailureKind.CUT, f"the connection to {host} broke: {shorten_message(str(error)) or type(error).__name__}")


def _host(url: str) -> str:
    parts = urlsplit(url)
    return parts.netloc.rpartition("@")[2]  # hide a password in the URL
