"""Hooks before a tool call: a plugin may refuse the call, or change its arguments. Nothing is authorised here.

A hook that fails or takes too long blocks the call: whoever put it there wanted to look at every call, and a call that nobody
has looked at is not what they wanted. Changed arguments are new ones, so the caller has them authorised again.
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

TIMEOUT_SECONDS = 5.0  # of one hook: the run waits for it
MAX_REASON_LENGTH = 500  # characters


@dataclass(frozen=True, slots=True)
class HookCall:
    """A call as it would be made. The arguments are a copy: changing them changes nothing."""

    tool: str
    arguments: dict[str, Any]
    agent: str
    session_key: str


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """`block` says why the call must not be made; `arguments` are laid over those of the call. None instead: no opinion."""

    block: str = ""
    arguments: dict[str, Any] | None = None


Hook = Callable[[HookCall], HookAnswer | Awaitable[HookAnswer | None] | None]


@dataclass(frozen=True, slots=True)
class PluginHook:
    plugin: str
    hook: Hook


@dataclass(frozen=True, slots=True)
class CallUnchanged:
    """No hook had anything to say."""


@dataclass(frozen=True, slots=True)
class ArgumentsChanged:
    arguments: dict[str, Any]  # all of them
    plugins: tuple[str, ...]  # that changed something


@dataclass(frozen=True, slots=True)
class CallBlocked:
    plugin: str
    reason: str

    @property
    def result(self) -> ToolResult:
        """What the model is told in place of the tool's result."""
        words = f"blocked_by_hook: plugin {self.plugin} does not let this call through: {self.reason}. It did not run."
        return text_result(words, details={"code": "blocked_by_hook", "plugin": self.plugin}, is_error=True)


async def run_hooks(call: HookCall, hooks: Sequence[PluginHook]) -> CallBlocked | ArgumentsChanged | CallUnchanged:
    """Ask each hook in turn; each sees the arguments as those before it have left them."""
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
                orjson.dumps(arguments)  # they are stored; a TypeError here is the hook's fault
                if arguments != call.arguments:
                    call = replace(call, arguments=arguments)
                    changed_by.append(each.plugin)
        except TimeoutError:
            log.warning(
                "the hook of plugin %s took longer than %g s; the call of %s is blocked", each.plugin, TIMEOUT_SECONDS, call.tool
            )
            return CallBlocked(each.plugin, f"its hook did not answer within {TIMEOUT_SECONDS:g} s")
        except Exception as error:
            log.exception("the hook of plugin %s failed; the call of %s is blocked", each.plugin, call.tool)
            return CallBlocked(each.plugin, f"its hook failed ({type(error).__name__})")
    return ArgumentsChanged(call.arguments, tuple(changed_by)) if changed_by else CallUnchanged()


async def _run_hook(hook: Hook, call: HookCall) -> HookAnswer | None:
    """A plain function runs on a thread: one that waits must not hold up every other run."""
    answer = hook(call) if inspect.iscoroutinefunction(hook) else await asyncio.to_thread(hook, call)
    if inspect.isawaitable(answer):
        answer = await answer
    if not isinstance(answer, HookAnswer | None):
        raise TypeError(f"a hook answers with a HookAnswer or None, not with {type(answer).__name__}")
    return answer
