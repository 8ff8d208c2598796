"""Run plugin hooks before a tool call. A hook may block the call or change its arguments; it doesn't authorize anything.

A hook that fails or times out blocks the call, because it was installed to check every call. Changed arguments must be
authorized again by the caller.
"""

import asyncio
import copy
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from tools_app.core.definition import ToolResult, text_result

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 5.0  # per hook; the run waits for it
MAX_REASON_LENGTH = 500  # characters


@dataclass(frozen=True, slots=True)
class HookCall:
    """The call a hook sees. The arguments are a copy: changing them has no effect."""

    tool: str
    arguments: dict[str, Any]
    agent: str
    session_key: str


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """`block` is the reason to block the call; `arguments` override those of the call. Hooks return None to do neither."""

    block: str = ""
    arguments: dict[str, Any] | None = None


Hook = Callable[[HookCall], HookAnswer | Awaitable[HookAnswer | None] | None]


@dataclass(frozen=True, slots=True)
class PluginHook:
    plugin: str
    hook: Hook


@dataclass(frozen=True, slots=True)
class CallUnchanged:
    """No hook blocked or changed the call."""


@dataclass(frozen=True, slots=True)
class ArgumentsChanged:
    arguments: dict[str, Any]  # the full set
    plugins: tuple[str, ...]  # plugins that changed something


@dataclass(frozen=True, slots=True)
class CallBlocked:
    plugin: str
    reason: str

    @property
    def result(self) -> ToolResult:
        """The result the model gets instead of the tool's."""
        message = f"blocked_by_hook: plugin {self.plugin} blocked this call: {self.reason}. It did not run."
        return text_result(message, details={"code": "blocked_by_hook", "plugin": self.plugin}, is_error=True)


async def run_hooks(call: HookCall, hooks: Sequence[PluginHook]) -> CallBlocked | ArgumentsChanged | CallUnchanged:
    """Run the hooks in order; each sees the arguments as changed by those before it."""
    changed_by: list[str] = []
    for each in hooks:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                answer = await _run_hook(each.hook, replace(call, arguments=copy.deepcopy(call.arguments)))
            if answer is None:
                continue
            if answer.block:
                return CallBlocked(each.plugin, answer.block[:MAX_REASON_LENGTH])
            if answer.arguments is not None:
                arguments = {**call.arguments, **answer.arguments}
                orjson.dumps(arguments)  # must be storable; a TypeError here is the hook's fault
                if arguments != call.arguments:
                    call = replace(call, arguments=arguments)
                    changed_by.append(each.plugin)
        except TimeoutError:
            log.warning("hook of plugin %s exceeded %g s; blocked call of %s", each.plugin, TIMEOUT_SECONDS, call.tool)
            return CallBlocked(each.plugin, f"its hook timed out after {TIMEOUT_SECONDS:g} s")
        except Exception as error:
            log.exception("hook failed in plugin %s; blocked the call to %s", each.plugin, call.tool)
            return CallBlocked(each.plugin, f"its hook failed ({type(error).__name__})")
    return ArgumentsChanged(call.arguments, tuple(changed_by)) if changed_by else CallUnchanged()


async def _run_hook(hook: Hook, call: HookCall) -> HookAnswer | None:
    """Run a hook; plain functions run on a thread, so that they can't block other runs."""
    answer = hook(call) if inspect.iscoroutinefunction(hook) else await asyncio.to_thread(hook, call)
    if inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, HookAnswer | None):
        raise TypeError(f"a hook must return a HookAnswer or None, not {type(answer).__name__}")
    return answer
