"""A server made with the SDK's own server class, over stdio or streamable HTTP: `python -m tests.mcp_servers.sdk_server [PORT]`."""

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, ImageContent, ResourceLink, TextContent

server = MCPServer("workbench")


@server.tool()
async def slow(seconds: float, ctx: Context, mark: str = "", words: str = "half way") -> str:
    """Take a while and report progress in text that may contain variables. `mark` is a file that records how it ended."""
    try:
        await ctx.report_progress(1, 2, os.path.expandvars(words))
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if mark:
            Path(mark).touch()  # noqa: ASYNC240  # nobody waits for it
        raise
    return "slept"


@server.tool()
async def fail(words: str) -> str:
    """Fail with this message."""
    raise ValueError(words)


@server.tool()
async def show() -> CallToolResult:
    """Return one block of each kind."""
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    return CallToolResult(
        content=[
            TextContent(text="a pixel"),
            ImageContent(data=pixel, mime_type="image/png"),
            ResourceLink(name="notes", uri="file:///notes.txt", mime_type="text/plain"),
        ],
        structured_content={"pixels": 1},
    )


@server.tool()
async def learn(name: str, ctx: Context) -> str:
    """Offer one more tool from now on."""

    async def newcomer() -> str:
        return f"I am {name}"

    server.add_tool(newcomer, name=name, description=f"The tool {name}")
    await ctx.notify_tools_changed()
    if ctx.protocol_version and ctx.protocol_version < "2026":
        await ctx.session.send_tool_list_changed()
    return "learned"


@server.tool()
async def environment(name: str) -> str:
    """Return the value of an environment variable of the server."""
    return os.environ.get(name, "(not set)")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
