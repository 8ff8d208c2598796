"""One server as this process knows it: connected, asked for its tools now and then, started again when it fails.

The only importer of the `mcp` package beside the two transports: it takes 2 s to import, so nothing loads this module before a
server is enabled. A connection never raises into the worker; a call that cannot be made fails in words for the model.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp.client.client import Client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from clawsite.infra.version import version
from tools_app.core.definition import CallContext, ToolFailed, ToolResult, text_result
from tools_app.sources.mcp.http import open_http_transport
from tools_app.sources.mcp.listing import MAX_TOOLS, ToolListing, build_listing
from tools_app.sources.mcp.names import clean_label
from tools_app.sources.mcp.results import build_tool_result
from tools_app.sources.mcp.secrets import MissingVariable, SecretResolver, inherited_environment
from tools_app.sources.mcp.servers import McpServerSettings
from tools_app.sources.mcp.stdio import ServerLaunch, ServerProcess, open_stdio_transport, start_server

log = logging.getLogger(__name__)

START_TIMEOUT_SECONDS = 60.0  # a first `npx` or `uvx` downloads its package
LIST_TIMEOUT_SECONDS = 30.0
HEALTH_INTERVAL_SECONDS = 60.0
MIN_LIST_INTERVAL = 1.0  # between two listings, however often the server says that they changed
MAX_RETRY_PAUSE = 60.0  # between two attempts
READY_TIMEOUT_SECONDS = 10.0  # of a call that meets a server which is just starting
MIN_UPDATE_INTERVAL = 0.5  # between two updates of a call: each is a row
MAX_ERROR_LENGTH = 300
CALL_RESULT_ADAPTER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)

ReportStatus = Callable[..., Awaitable[bool]]  # (status, error="", listing=None, restarted=False) -> whether it was stored


class ServerFailure(Exception):
    """The server cannot be used. The message is for the operator."""


class McpConnection:
    """Lives as one task from `open` to `close`. `report` stores what is seen; it must not raise."""

    def __init__(self, settings: McpServerSettings, report: ReportStatus) -> None:
        self.settings = settings
        self._report = report
        self._client: Client | None = None
        self._ready = asyncio.Event()
        self._refresh_event = asyncio.Event()  # at the list of tools, now
        self._failures = 0
        self._error = ""
        self._stored: list[Tool] | None = None  # the server's list, as it told it, that was reported and stored last
        self._secrets = SecretResolver()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"mcp {self.settings.name}")

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # Staying connected

    async def _run(self) -> None:
        while True:
            self._secrets = SecretResolver()
            began = time.monotonic()
            try:
                await self._report("starting", error=self._error, restarted=self._failures > 0)
                await self._connect()
            except asyncio.CancelledError:
                raise
            except (Exception, BaseExceptionGroup) as error:
                if (current := asyncio.current_task()) and current.cancelling():
                    raise asyncio.CancelledError from error
                self._error = self._describe_error(error)
            finally:
                self._client = None
                self._ready.clear()
            self._failures = 1 if time.monotonic() - began > HEALTH_INTERVAL_SECONDS else self._failures + 1
            log.warning("MCP server %s failed: %s", self.settings.name, self._error)
            await self._report("failing", error=self._error)
            await asyncio.sleep(min(MAX_RETRY_PAUSE, 2 ** min(self._failures - 1, 10)) * random.uniform(0.8, 1.2))  # noqa: S311  # no secret

    async def _connect(self) -> None:
        """Be connected until something fails; always ends with an exception."""
        try:
            async with asyncio.timeout(START_TIMEOUT_SECONDS) as limit, self._transport() as (transport, program):
                try:
                    async with self._client_on(transport) as client:
                        await self._refresh_tools(client)
                        limit.reschedule(None)
                        self._client = client
                        self._ready.set()
                        await self._watch(client, program)
                except Exception as error:
                    raise _explain_failure(error, program) from error
        except TimeoutError:
            if limit.expired():
                raise ServerFailure(f"it did not answer within {START_TIMEOUT_SECONDS:g} s") from None
            raise

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[tuple[Any, ServerProcess | None], None]:
        wanted, secrets = self.settings, self._secrets
        if wanted.transport == "http":
            yield open_http_transport(secrets.text(wanted.url), secrets.mapping(wanted.headers)), None
            return
        argv = secrets.texts([wanted.command, *wanted.args])
        env = inherited_environment() | secrets.mapping(wanted.env)
        program = await start_server(ServerLaunch(wanted.name, argv, env, secrets.redacted))
        yield open_stdio_transport(program), program

    def _client_on(self, transport: Any) -> Client:
        # Newer servers are found by a question that some older ones cannot bear: after a failure they are greeted the old way.
        mode = "auto" if self._failures % 2 == 0 else "legacy"
        us = Implementation(name="clawsite", version=version())
        return Client(transport, mode=mode, cache=None, client_info=us, message_handler=self._handle_message)

    async def _handle_message(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._refresh_event.set()

    async def _watch(self, client: Client, program: ServerProcess | None) -> None:
        """Ask for the tools again now and then, at once when they changed or when a call went wrong."""
        ended = asyncio.create_task(program.over.wait()) if program else None
        told = asyncio.create_task(self._subscribe(client))
        try:
            while True:
                asked = asyncio.create_task(self._refresh_event.wait())
                news = [asked, ended] if ended else [asked]
                await asyncio.wait(news, timeout=HEALTH_INTERVAL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                asked.cancel()
                if program and program.over.is_set():
                    raise ServerFailure(program.why)
                await asyncio.sleep(MIN_LIST_INTERVAL)
                self._refresh_event.clear()
                await self._refresh_tools(client)
        finally:
            for task in (told, *([ended] if ended else [])):
                task.cancel()

    async def _subscribe(self, client: Client) -> None:
        """Newer servers tell of changes only those who ask for it."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        with contextlib.suppress(Exception):  # without it changes are seen at the next look
            async with client.listen(tools_list_changed=True) as changes:
                self._refresh_event.set()  # what changed since the first look was told to nobody
                async for _change in changes:
                    self._refresh_event.set()

    async def _refresh_tools(self, client: Client) -> None:
        told = await self._list(client)
        self._error = ""
        if told == self._stored:
            await self._report("ready")
            return
        listing = await asyncio.to_thread(_build_listing, self.settings.name, told)  # 200 tools with large schemas take a second
        if await self._report("ready", listing=listing):
            self._stored = told

    async def _list(self, client: Client) -> list[Tool]:
        told: list[Tool] = []
        cursor = None
        async with asyncio.timeout(LIST_TIMEOUT_SECONDS):
            while len(told) <= MAX_TOOLS:
                page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
                told += page.tools
                cursor = page.next_cursor
                if not cursor or not page.tools:
                    break
        return told

    # Calling

    async def call(self, tool: str, arguments: dict[str, Any], call: CallContext) -> ToolResult:
        """Cancelling the caller, by abort or time-out, tells the server to stop."""
        client = await self._ready_client()
        secrets = self._secrets  # those it has now, whatever it is started with next
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
        try:
            # Not `call_tool`, which would also check the answer by expressions that the server chose.
            answer = await client.session.send_request(
                request, CALL_RESULT_ADAPTER, progress_callback=_make_progress_callback(call, secrets)
            )
        except Exception as error:
            self._refresh_event.set()
            raise ToolFailed(self._call_failed(error)) from error
        if isinstance(answer, InputRequiredResult):
            raise ToolFailed(f"MCP server `{self.settings.name}` wants to ask a person something, which is not possible here.")
        told = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        return await asyncio.to_thread(build_tool_result, told, self.settings.name, secrets.without)  # it may have megabytes

    async def _ready_client(self) -> Client:
        if self._failures < 2:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READY_TIMEOUT_SECONDS):
                    await self._ready.wait()
        if self._client is None:
            down = f"MCP server `{self.settings.name}` is not running" + (f" ({self._error})" if self._error else "")
            raise ToolFailed(f"{down}. It is started again by itself: go on without it, or try later.")
        return self._client

    def _call_failed(self, error: Exception) -> str:
        name = self.settings.name
        if isinstance(error, MCPError) and error.code != CONNECTION_CLOSED:
            return f"MCP server `{name}` answered with an error: {self._describe_error(error)}"
        broke = f"the connection to MCP server `{name}` broke during the call ({self._describe_error(error)})"
        return f"{broke}. Whether it had an effect is not known."

    def _describe_error(self, error: BaseException) -> str:
        """In words for people and models. First without secrets, then cut: half a secret would not be found."""
        return clean_label(self._secrets.redacted(_describe_exception(error)), MAX_ERROR_LENGTH)


def _make_progress_callback(call: CallContext, secrets: SecretResolver) -> ProgressFnT:
    shown = -MIN_UPDATE_INTERVAL

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        nonlocal shown
        if time.monotonic() - shown < MIN_UPDATE_INTERVAL:
            return
        shown = time.monotonic()
        count = f"{progress:g}/{total:g}" if total else f"{progress:g}"
        call.update(text_result(f"{count} {clean_label(secrets.without(message or ''), MAX_ERROR_LENGTH)}".strip()))

    return tell


def _build_listing(server: str, told: list[Tool]) -> ToolListing:
    return build_listing(server, [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in told])


def _explain_failure(error: Exception, program: ServerProcess | None) -> Exception:
    """Why a program failed is mostly in its last words."""
    if program and (program.over.is_set() or program.last_stderr):
        why = program.why or _describe_exception(error)
        return ServerFailure(f"{why}: {program.last_stderr}" if program.last_stderr else why)
    return error


def _describe_exception(error: BaseException) -> str:
    """What happened, of a failure that may be wrapped in groups by the SDK's task groups. Not yet fit to be shown."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, ServerFailure | MissingVariable | MCPError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return f"{type(error).__name__}: {error}"
