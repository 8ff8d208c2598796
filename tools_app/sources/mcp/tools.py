"""Create tool factories from a server's row, without a connection and without the SDK."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from tools_app.core.arguments import BadArguments, Check
from tools_app.core.definition import CallContext, ToolEnv, ToolFactory, ToolResult
from tools_app.models import McpServer
from tools_app.sources.mcp.listing import is_included
from tools_app.sources.mcp.manager import call_tool
from tools_app.sources.mcp.names import make_tool_name


def make_factories(server: McpServer) -> Iterator[ToolFactory]:
    """Yield factories for the last seen tools that the operator's patterns include.

    The server's `readOnlyHint` and `idempotentHint` are not trusted: its calls run one at a time and are never retried.
    """
    for tool in server.tools:
        if is_included(tool["name"], server.include, server.exclude):
            yield _make_factory(server, tool)


def _make_factory(server: McpServer, tool: dict[str, Any]) -> ToolFactory:
    # Copied, because the factory outlives the row.
    server_name, name = server.name, tool["name"]

    async def perform(arguments: dict[str, Any], call: CallContext) -> ToolResult:
        return await call_tool(server_name, name, arguments, call)

    def make(_env: ToolEnv) -> Any:
        return perform

    return ToolFactory(
        name=make_tool_name(server_name, name),
        label=tool["title"] or name,
        group="",
        description=tool["description"] or f"{name}, a tool of the MCP server {server_name}",
        parameters=tool["inputSchema"],
        check=make_schema_check(tool["inputSchema"]),
        make=make,
        timeout_s=server.timeout_seconds,
        mcp_tool=(server_name, name),
    )


if TYPE_CHECKING:
    from jsonschema.protocols import Validator

MAX_ERRORS = 6
MAX_ERROR_LENGTH = 200


def make_schema_check(schema: dict[str, Any]) -> Check:
    """Return a tool's argument check. jsonschema takes 0.3 s to import, so it is loaded on the first call."""

    @cache
    def validator() -> "Validator":
        from jsonschema import Draft202012Validator

        return Draft202012Validator(schema)  # cleaned: it contains no references

    def check(arguments: dict[str, Any]) -> dict[str, Any]:
        faults: list[tuple[str, str]] = []
        missing: dict[str, None] = {}
        for error in validator().iter_errors(arguments):
            if error.validator == "required" and not error.absolute_path:
                missing |= dict.fromkeys(name for name in error.validator_value if name not in arguments)
            else:
                faults.append((".".join(map(str, error.absolute_path)), error.message[:MAX_ERROR_LENGTH]))
            if len(faults) == MAX_ERRORS:
                break
        if faults or missing:
            raise BadArguments(faults, list(missing))
        return arguments

    return check
