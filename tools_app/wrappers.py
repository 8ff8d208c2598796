"""One authorised call, made safe to run: arguments checked, time limited, failures in words, the result cleaned and cut.

Whatever goes wrong becomes a result the model can read. Cancellation alone passes through.
"""

import asyncio
import logging
from typing import Any

from django.conf import settings

from clawsite.infra.redact import host_secrets
from tools_app import cleaning
from tools_app.adapter.aliases import with_own_names
from tools_app.authorize import AuthorizedCall
from tools_app.definition import BY_ITSELF, BadArguments, Call, CallRef, Tool, ToolFailed, ToolResult, text_result
from tools_app.supervision import Supervision

logger = logging.getLogger(__name__)


async def perform(authorized: AuthorizedCall, call: Call) -> ToolResult:
    """Run one call to its result."""
    if not isinstance(authorized, AuthorizedCall):
        raise TypeError("only an authorised call can run")
    tool = authorized.tool
    try:
        args = tool.check(with_own_names(tool.name, authorized.ref.arguments, tool.parameters))
    except BadArguments as error:
        return tidy(text_result(_argument_errors(tool, error), details={"code": "invalid_arguments"}, is_error=True))
    try:
        return tidy(await _within_time(tool, args, call))
    except ToolFailed as failure:
        return tidy(text_result(str(failure), is_error=True))
    except Exception as error:
        logger.exception("tool %s failed in call %s", tool.name, authorized.ref.id)
        # The class helps a person who reads along; the message may hold paths or secrets.
        return text_result(f"the tool failed unexpectedly ({type(error).__name__})", details={"code": "tool_failed"}, is_error=True)


async def planned(tool: Tool, ref: CallRef) -> Any:
    """What a supervised call would do; a Supervision that denies it, in words, where no plan can be made."""
    if tool.plan is None:
        raise TypeError(f"{tool.name} is not supervised")
    try:
        return await tool.plan(tool.check(with_own_names(tool.name, ref.arguments, tool.parameters)), ref)
    except BadArguments as error:
        return Supervision("deny", _argument_errors(tool, error), code="invalid_arguments")
    except ToolFailed as failure:
        return Supervision("deny", str(failure), code="tool_failed")
    except Exception as error:
        logger.exception("tool %s could not plan call %s", tool.name, ref.id)
        words = f"exec_denied: what it would do could not be found out ({type(error).__name__}). It did not run."
        return Supervision("deny", words)


def tidy(result: ToolResult) -> ToolResult:
    """The result within the limits of this installation, and without its secrets."""
    secrets = host_secrets([settings.SECRET_KEY, settings.GATEWAY_TOKEN])
    return cleaning.tidy(result, cleaning.Limits(int(settings.TOOL_RESULT_KB * 1024), secrets))


async def _within_time(tool: Tool, args: Any, call: Call) -> ToolResult:
    """The tool's result, or words about its time-out. What is declared idempotent gets a second try."""
    seconds = tool.timeout_s or settings.TOOL_TIMEOUT_SECONDS
    if seconds == BY_ITSELF:
        return await tool.perform(args, call)
    for _ in range(2 if tool.idempotent else 1):
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await tool.perform(args, call)
        except TimeoutError:
            if not limit.expired():
                raise
    if tool.idempotent:
        words = f"was stopped after {seconds:g} s, and once more when it was tried again"
    elif tool.read_only:
        words = f"was stopped after {seconds:g} s; it only reads, so nothing was changed"
    else:
        words = f"was stopped after {seconds:g} s. It may have done part of its work: look before you try again"
    return text_result(f"tool_timeout: `{tool.name}` {words}.", details={"code": "tool_timeout"}, is_error=True)


def _argument_errors(tool: Tool, error: BadArguments) -> str:
    names = ", ".join(f"`{name}`" for name in tool.parameters.get("properties", {})) or "none"
    return f"invalid arguments for `{tool.name}`: {error}. It did not run. Its arguments are: {names}."
