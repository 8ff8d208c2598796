"""A throw-away installation whose rows this process can make and read itself. One process has one: Django is set up on it."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.installation import CLEARED, Installation

PATIENCE = 60.0


@contextmanager
def with_rows(database: str) -> Iterator[Installation]:
    """Made and not yet started; `running` starts it."""
    for name in [name for name in os.environ if name.startswith(CLEARED)]:
        del os.environ[name]
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # one coroutine and nothing beside it: it may ask the database itself
    installation = Installation(database)
    installation.env["PYTHONPATH"] = str(installation.home)
    try:
        installation.open()
        os.environ |= {name: value for name, value in installation.env.items() if name.startswith(CLEARED)}
        os.environ["DJANGO_SETTINGS_MODULE"] = "clawsite.settings"
        import django

        django.setup()
        yield installation
    finally:
        installation.close()


@contextmanager
def running(installation: Installation) -> Iterator[None]:
    """Its processes, once all of them are there."""
    installation.launcher.start()
    try:
        asyncio.run(_when_ready(installation))
        yield
    finally:
        installation.launcher.stop()


async def until(condition: Callable[[], Any]) -> float:
    """The moment it holds, looked at every 2 ms."""
    give_up = time.perf_counter() + PATIENCE
    while not condition():
        if time.perf_counter() > give_up:
            raise RuntimeError("it did not happen within a minute")
        await asyncio.sleep(0.002)
    return time.perf_counter()


async def _when_ready(installation: Installation) -> None:
    from sessions_app.runs import workers

    await until(lambda: workers.list_live().count() >= len(installation.urls))
    await asyncio.sleep(3)  # the processes find each other on the bus
