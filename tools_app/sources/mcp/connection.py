"""The connection to one MCP server: connect, list its tools periodically, restart it when it fails.

Only this module and the two transports import the `mcp` package: it takes 2 s to import, so nothing loads this module before
a server is enabled. A connection never raises into the worker; a call that can't be made raises ToolFailed.
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

START_TIMEOUT_SECONDS = 60.0  # the first run of `npx` or `uvx` downloads the package
LIST_TIMEOUT_SECONDS = 30.0
HEALTH_INTERVAL_SECONDS = 60.0
MIN_LIST_INTERVAL = 1.0  # between two listings, however often the server announces changes
MAX_RETRY_PAUSE = 60.0  # between two attempts
READY_TIMEOUT_SECONDS = 10.0  # how long a call waits for a starting server
MIN_UPDATE_INTERVAL = 0.5  # between two updates of a call: each one is stored
MAX_ERROR_LENGTH = 300
CALL_RESULT_ADAPTER: TypeAdapter[CallToolResult | InputRequiredResult] = TypeAdapter(CallToolResult | InputRequiredResult)

ReportStatus = Callable[..., Awaitable[bool]]  # (status, error="", listing=None, restarted=False) -> whether it was stored


class ServerFailure(Exception):
    """The server cannot be used. The message is for the operator."""


class McpConnection:
    """Runs as one task from `open` to `close`. `report` stores the status; it must not raise."""

    def __init__(self, settings: McpServerSettings, report: ReportStatus) -> None:
        self.settings = settings
        self._report = report
        self._client: Client | None = None
        self._ready = asyncio.Event()
        self._refresh_event = asyncio.Event()  # set to list the tools immediately
        self._failures = 0
        self._error = ""
        self._stored: list[Tool] | None = None  # the server's list as last reported and stored
        self._secrets = SecretResolver()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"mcp {self.settings.name}")

    async def close(self) -> None:
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # Connecting

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
        """Stay connected until something fails; always ends with an exception."""
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
        settings, secrets = self.settings, self._secrets
        if settings.transport == "http":
            yield open_http_transport(secrets.text(settings.url), secrets.mapping(settings.headers)), None
            return
        argv = secrets.texts([settings.command, *settings.args])
        env = inherited_environment() | secrets.mapping(settings.env)
        program = await start_server(ServerLaunch(settings.name, argv, env, secrets.redacted))
        yield open_stdio_transport(program), program

    def _client_on(self, transport: Any) -> Client:
        # Some older servers fail on the probe for newer protocol versions, so every second attempt uses the legacy handshake.
        mode = "auto" if self._failures % 2 == 0 else "legacy"
        client_info = Implementation(name="clawsite", version=version())
        return Client(transport, mode=mode, cache=None, client_info=client_info, message_handler=self._handle_message)

    async def _handle_message(self, message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._refresh_event.set()

    async def _watch(self, client: Client, program: ServerProcess | None) -> None:
        """List the tools periodically, and immediately after a change or a failed call."""
        ended = asyncio.create_task(program.over.wait()) if program else None
        subscription = asyncio.create_task(self._subscribe(client))
        try:
            while True:
                refresh = asyncio.create_task(self._refresh_event.wait())
                waits = [refresh, ended] if ended else [refresh]
                await asyncio.wait(waits, timeout=HEALTH_INTERVAL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                refresh.cancel()
                if program and program.over.is_set():
                    raise ServerFailure(program.why)
                await asyncio.sleep(MIN_LIST_INTERVAL)
                self._refresh_event.clear()
                await self._refresh_tools(client)
        finally:
            for task in (subscription, *([ended] if ended else [])):
                task.cancel()

    async def _subscribe(self, client: Client) -> None:
        """Subscribe to tool list changes; newer servers notify only subscribers."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        with contextlib.suppress(Exception):  # without it, changes are seen at the next listing
            async with client.listen(tools_list_changed=True) as changes:
                self._refresh_event.set()  # changes since the first listing were not announced
                async for _change in changes:
                    self._refresh_event.set()

    async def _refresh_tools(self, client: Client) -> None:
        listed = await self._list(client)
        self._error = ""
        if listed == self._stored:
            await self._report("ready")
            return
        listing = await asyncio.to_thread(_build_listing, self.settings.name, listed)  # 200 tools with large schemas take 1 s
        if await self._report("ready", listing=listing):
            self._stored = listed

    async def _list(self, client: Client) -> list[Tool]:
        listed: list[Tool] = []
        cursor = None
        async with asyncio.timeout(LIST_TIMEOUT_SECONDS):
            while len(listed) <= MAX_TOOLS:
                page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
                listed += page.tools
                cursor = page.next_cursor
                if not cursor or not page.tools:
                    break
        return listed

    # Calling

    async def call(self, tool: str, arguments: dict[str, Any], call: CallContext) -> ToolResult:
        """Call a tool. Canceling the caller, by abort or timeout, tells the server to stop."""
        client = await self._ready_client()
        secrets = self._secrets  # the secrets of this connection, in case it restarts
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
        try:
            # Not `call_tool`, which would also validate the answer with patterns chosen by the server.
            answer = await client.session.send_request(
                request, CALL_RESULT_ADAPTER, progress_callback=_make_progress_callback(call, secrets)
            )
        except Exception as error:
            self._refresh_event.set()
            raise ToolFailed(self._call_failed(error)) from error
        if isinstance(answer, InputRequiredResult):
            raise ToolFailed(f"MCP server `{self.settings.name}` requires user input, which is not supported here.")
        message = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        return await asyncio.to_thread(build_tool_result, message, self.settings.name, secrets.without)  # may be megabytes

    async def _ready_client(self) -> Client:
        if self._failures < 2:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READY_TIMEOUT_SECONDS):
                    await self._ready.wait()
        if self._client is None:
            down = f"MCP server `{self.settings.name}` is not running" + (f" ({self._error})" if self._error else "")
            raise ToolFailed(f"{down}. It restarts automatically: continue without it, or try later.")
        return self._client

    def _call_failed(self, error: Exception) -> str:
        name = self.settings.name
        if isinstance(error, MCPError) and error.code != CONNECTION_CLOSED:
            return f"MCP server `{name}` returned an error: {self._describe_error(error)}"
        lost = f"the connection to MCP server `{name}` was lost during the call ({self._describe_error(error)})"
        return f"{lost}. The call may or may not have taken effect."

    def _describe_error(self, error: BaseException) -> str:
        """Describe the error for people and models. Remove secrets before truncating: half a secret would not be recognized."""
        return clean_label(self._secrets.redacted(_describe_exception(error)), MAX_ERROR_LENGTH)


def _make_progress_callback(call: CallContext, secrets: SecretResolver) -> ProgressFnT:
    shown = -MIN_UPDATE_INTERVAL

    async def report(progress: float, total: float | None, message: str | None) -> None:
        nonlocal shown
        if time.monotonic() - shown < MIN_UPDATE_INTERVAL:
            return
        shown = time.monotonic()
        count = f"{progress:g}/{total:g}" if total else f"{progress:g}"
        call.update(text_result(f"{count} {clean_label(secrets.without(message or ''), MAX_ERROR_LENGTH)}".strip()))

    return report


def _build_listing(server: str, listed: list[Tool]) -> ToolListing:
    return build_listing(server, [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in listed])


def _explain_failure(error: Exception, program: ServerProcess | None) -> Exception:
    """Add the program's last line on stderr, which usually says why it failed."""
    if program and (program.over.is_set() or program.last_stderr):
        why = program.why or _describe_exception(error)
        return ServerFailure(f"{why}: {program.last_stderr}" if program.last_stderr else why)
    return error


def _describe_exception(error: BaseException) -> str:
    """Describe a failure, unwrapping the exception groups of the SDK's task groups. May still contain secrets."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if isinstance(error, ServerFailure | MissingVariable | MCPError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return f"{type(error).__name__}: {error}"
