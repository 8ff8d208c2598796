"""Apps register tasks; the runtime starts them without knowing them."""

import asyncio
from types import SimpleNamespace

import pytest
from django.conf import settings as django_settings

from clawsite.gateway.server import runtime
from clawsite.infra import periodic


def test_webhooks_register_their_tasks(settings):
    tasks = {task.name: task for task in periodic.registered_tasks()}
    assert tasks["webhook results"].every() == django_settings.POLL_SECONDS
    assert tasks["webhook log cleanup"].every() == 600
    settings.POLL_SECONDS = 7.0
    assert tasks["webhook results"].every() == 7.0


def test_registering_same_name_replaces_task(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(periodic, "_tasks", {})

    async def first() -> None: ...

    async def second() -> None: ...

    periodic.register("task", lambda: 1.0, first)
    periodic.register("task", lambda: 2.0, second)
    assert [(task.every(), task.function) for task in periodic.registered_tasks()] == [(2.0, second)]


async def test_failed_task_is_logged_and_called_again(caplog: pytest.LogCaptureFixture):
    calls = 0
    done = asyncio.Event()

    async def fail() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            done.set()
        raise ValueError("no luck")

    repeating = asyncio.create_task(runtime.Runtime._every(SimpleNamespace(), 0.001, fail))  # type: ignore[arg-type]
    await asyncio.wait_for(done.wait(), 5)
    repeating.cancel()
    assert "background task failed" in caplog.text
