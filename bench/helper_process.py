"""A helper process with requests and responses as JSON lines over stdin and stdout."""

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

import orjson

Json = dict[str, Any]


class HelperProcess:
    """The benchmark's side."""

    def __init__(self, module: str, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self._command = (sys.executable, "-m", module, *arguments)
        self._env = env
        self._process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe, limit=16 << 20, env=self._env)

    async def request(self, timeout: float = 120, **params: Any) -> Json:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(orjson.dumps(params) + b"\n")
        line = await asyncio.wait_for(self._process.stdout.readline(), timeout)
        if not line:
            raise ConnectionError(f"{self._command[2]} exited early; see its message above")
        response: Json = orjson.loads(line)
        return response

    async def close(self) -> None:
        """Close its input, which makes it exit; send signals if it does not."""
        if self._process.stdin:
            self._process.stdin.close()
        for signal in (self._process.terminate, self._process.kill):
            try:
                await asyncio.wait_for(self._process.wait(), 10)
            except TimeoutError:
                signal()
        await self._process.wait()


async def next_request() -> Json | None:
    """Read the next request, in the helper. None means that the benchmark has ended."""
    line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.readline)
    return orjson.loads(line) if line else None


def respond(response: Json) -> None:
    sys.stdout.buffer.write(orjson.dumps(response) + b"\n")
    sys.stdout.buffer.flush()
