"""A connection without rows, which keeps its reports in a list."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import psutil

from tests.harness.processes import PROJECT
from tests.unit.test_outside_text import inside
from tools_app.core.definition import CallContext, ToolResult
from tools_app.sources.mcp.connection import McpConnection
from tools_app.sources.mcp.servers import McpServerSettings

ROGUE = str(Path(__file__).with_name("rogue.py"))
BIN = Path(sys.executable).parent


def program(*argv: str, name: str = "srv", **env: str) -> McpServerSettings:
    return McpServerSettings(name, 1, "stdio", argv[0], list(argv[1:]), env, "", {})


def rogue(kind: str, name: str = "srv") -> McpServerSettings:
    return program(sys.executable, ROGUE, kind, name=name)


def workbench(**env: str) -> McpServerSettings:
    return program(sys.executable, "-m", "tests.mcp_servers.sdk_server", PYTHONPATH=str(PROJECT), **env)


def address(url: str, **headers: str) -> McpServerSettings:
    return McpServerSettings("srv", 1, "http", "", [], {}, url, headers)


def clock_server() -> McpServerSettings:
    return program(str(BIN / "mcp-server-time"), "--local-timezone", "UTC")


class Observed:
    """`async with Observed(settings) as it:`; the connection and everything it reported."""

    stores = True  # receives reports like the database

    def __init__(self, settings: McpServerSettings) -> None:
        self.reports: list[tuple[str, dict[str, Any]]] = []
        self.updates: list[str] = []
        self.connection = McpConnection(settings, self._report)

    async def _report(self, status: str, **seen: Any) -> bool:
        self.reports.append((status, seen))
        return self.stores

    async def __aenter__(self) -> "Observed":
        self.connection.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.connection.close()

    async def call(self, tool: str, **arguments: Any) -> ToolResult:
        call = CallContext("c1", lambda partial: self.updates.append(partial.text), asyncio.Event())
        return await self.connection.call(tool, arguments, call)

    async def said(self, tool: str, **arguments: Any) -> str:
        """Return the content of the result's envelope."""
        return inside((await self.call(tool, **arguments)).text)

    @property
    def statuses(self) -> list[str]:
        return [status for status, _ in self.reports]

    @property
    def error(self) -> str:
        return next((seen["error"] for status, seen in reversed(self.reports) if status == "failing"), "")

    @property
    def tools(self) -> list[str]:
        listings = [seen["listing"] for _, seen in self.reports if seen.get("listing")]
        return [tool["name"] for tool in listings[-1].tools] if listings else []

    @property
    def notes(self) -> list[str]:
        return next(seen["listing"].notes for _, seen in self.reports if seen.get("listing"))


def programs_of(process: psutil.Process | None = None) -> list[psutil.Process]:
    """Return all processes below a process (this one by default) that a guard started, and the guards."""
    return [each for each in (process or psutil.Process()).children(recursive=True) if _is_guarded(each)]


def _is_guarded(process: psutil.Process) -> bool:
    try:
        return any("guard.py" in " ".join(each.cmdline()) for each in (process, *process.parents()))
    except psutil.NoSuchProcess:
        return False


def the_server(process: psutil.Process | None = None) -> psutil.Process:
    """Return the one program under its guard."""
    (found,) = [each for each in programs_of(process) if "guard.py" in " ".join(each.parent().cmdline())]
    return found
