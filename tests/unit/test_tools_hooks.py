"""Plugin hooks check calls before they are made: they can block or change them, and a failing hook blocks the call."""

import asyncio
import time

import pytest

from tools_app.core import plugin_hooks
from tools_app.core.plugin_hooks import ArgumentsChanged, CallBlocked, CallUnchanged, HookAnswer, HookCall, PluginHook, run_hooks

CALL = HookCall("write", {"path": "a", "content": "x"}, "main", "agent:main:main")


def named(*functions):
    return [PluginHook(f"p{number}", each) for number, each in enumerate(functions, start=1)]


async def test_hooks_without_changes_leave_call_unchanged():
    async def later(call):
        return None

    assert await run_hooks(CALL, named(lambda call: None, later, lambda call: HookAnswer())) == CallUnchanged()
    assert await run_hooks(CALL, named(lambda call: HookAnswer(arguments={"path": "a"}))) == CallUnchanged()
    assert await run_hooks(CALL, []) == CallUnchanged()


async def test_blocking_hook_skips_later_hooks():
    asked = []
    outcome = await run_hooks(CALL, named(lambda call: HookAnswer(block="not on fridays"), asked.append))
    assert outcome == CallBlocked("p1", "not on fridays")
    assert asked == []
    assert (outcome.result.is_error, outcome.result.details) == (True, {"code": "blocked_by_hook", "plugin": "p1"})
    assert "plugin p1 blocked this call: not on fridays" in outcome.result.text


async def test_hook_changes_are_merged_and_passed_to_next():
    async def second(call):
        return HookAnswer(arguments={"content": call.arguments["path"]})

    outcome = await run_hooks(CALL, named(lambda call: HookAnswer(arguments={"path": "b"}), lambda call: None, second))
    assert outcome == ArgumentsChanged({"path": "b", "content": "b"}, ("p1", "p3"))
    assert CALL.arguments == {"path": "a", "content": "x"}


async def test_mutating_hook_arguments_does_not_change_call():
    assert await run_hooks(CALL, named(lambda call: call.arguments.clear())) == CallUnchanged()


def fails(call):
    raise ValueError("the secret is hunter2")


@pytest.mark.parametrize(
    ("hook", "reason"),
    [
        (fails, "its hook failed (ValueError)"),
        (lambda call: "yes", "its hook failed (TypeError)"),
        (lambda call: HookAnswer(arguments={"path": object()}), "its hook failed (TypeError)"),
    ],
)
async def test_failing_hook_blocks_call_and_is_named(hook, reason):
    assert await run_hooks(CALL, named(hook)) == CallBlocked("p1", reason)


async def test_hook_timeout_blocks_call(monkeypatch):
    async def never(call):
        await asyncio.Event().wait()

    monkeypatch.setattr(plugin_hooks, "TIMEOUT_SECONDS", 0.02)
    assert await run_hooks(CALL, named(never)) == CallBlocked("p1", "its hook timed out after 0.02 s")
    assert isinstance(await run_hooks(CALL, named(lambda call: time.sleep(0.2))), CallBlocked)


async def test_cancellation_is_not_treated_as_hook_failure():
    waiting = asyncio.Event()

    async def never(call):
        waiting.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(run_hooks(CALL, named(never)))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
