"""Optional JSONL log of provider streams, for debugging providers. Off unless a path is configured.

One line per event: time, run, model and the event. Never headers, keys or prompts. If the log can't be written, it is
disabled with one warning; runs are not affected.
"""

import logging
import os
import threading
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

import orjson

from agents.llm.base import ModelProvider, ModelRequest, ProviderError, StreamEvent

log = logging.getLogger(__name__)


class RawLog:
    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._broken = False
        self._lock = threading.Lock()

    def write(self, line: dict[str, Any]) -> None:
        if self._broken:
            return
        try:
            data = orjson.dumps(line) + b"\n"
            with self._lock:
                if self._descriptor is None:
                    self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
                    os.fchmod(self._descriptor, 0o600)  # even if the file already existed
                os.write(self._descriptor, data)  # a single write, so that lines of several processes don't mix
        except (OSError, TypeError) as error:
            self._broken = True
            log.warning("can't write the raw stream log %s; disabled until the next start: %s", self._path, error)


class LoggedProvider:
    """Wraps a provider and logs its events."""

    def __init__(self, provider: ModelProvider, raw: RawLog) -> None:
        self._provider = provider
        self._raw = raw

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamEvent, None]:
        head = {"run": request.run_id, "model": request.model}
        try:
            async with aclosing(self._provider.stream(request)) as events:
                async for event in events:
                    self._raw.write({"ts": int(time.time() * 1000), **head, "event": type(event).__name__, **asdict(event)})
                    yield event
        except ProviderError as error:
            failure = {"event": "ProviderError", "kind": error.kind, "status": error.status, "message": error.message}
            self._raw.write({"ts": int(time.time() * 1000), **head, **failure})
            raise

    async def aclose(self) -> None:
        await self._provider.aclose()


def with_raw_log(provider: ModelProvider, path: str) -> ModelProvider:
    """Wrap the provider if a path is configured."""
    return LoggedProvider(provider, _open_log(path)) if path else provider


_LOGS: dict[str, RawLog] = {}


def _open_log(path: str) -> RawLog:
    return _LOGS.setdefault(path, RawLog(path))
