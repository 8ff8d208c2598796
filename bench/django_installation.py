"""A temporary installation whose database this process can use, because Django is set up for it. One per process."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.installation import CLEARED, Installation

PATIENCE = 60.0


@contextmanager
def open_installation(database: str) -> Iterator[Installation]:
    """Create the installation without starting it; `running` starts it."""
    for name in [name for name in os.environ if name.startswith(CLEARED)]:
        del os.environ[name]
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # safe here: only one coroutine uses the database
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
    """Start its processes and wait until all are ready."""
    installation.launcher.start()
    try:
        asyncio.run(_wait_until_ready(installation))
        yield
    finally:
        installation.launcher.stop()


async def until(condition: Callable[[], Any]) -> float:
    """Check the condition every 2 ms; return the time at which it became true."""
    give_up = time.perf_counter() + PATIENCE
    while not condition():
        if time.perf_counter() > give_up:
            raise RuntimeError("the condition was not met within a minute")
        await asyncio.sleep(0.002)
    return time.perf_counter()


async def _wait_until_ready(installation: Installation) -> None:
    from sessions_app.runs import workers

    await until(lambda: workers.list_live().count() >= len(installation.urls))
    await asyncio.sleep(3)  # until the processes have connected to the bus
