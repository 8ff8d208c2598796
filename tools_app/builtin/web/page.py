"""Extract readable text from a web page. Runs tools_app.builtin.web.page_worker as a process and enforces its limits."""

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from weakref import WeakKeyDictionary

from tools_app.core.definition import ToolFailed

TIMEOUT_S = 15.0  # for the text of the whole page; a typical page takes one second, mostly startup
MAIN_TEXT_TIMEOUT_S = 8.0  # for the main text, measured from the same start; after that, the whole page's text is used
MAX_CONCURRENT = 4  # worker processes; each needs a core
MAX_LINE = 64 * 1024 * 1024  # bytes; the escaped text of the largest page that can be fetched
CODE_ROOT = str(Path(__file__).parents[3])
BOOTSTRAP = "import sys; sys.path.append(sys.argv[1]); from tools_app.builtin.web.page_worker import main; main()"
WORKER_ARGV = ("-I", "-c", BOOTSTRAP, CODE_ROOT)

_semaphores: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ReadablePage:
    title: str
    text: str


async def extract_readable(html: str, url: str, *, markdown: bool) -> ReadablePage:
    """Return the title and main text. Links are kept only in markdown, and made absolute with `url`."""
    request = json.dumps({"url": url, "markdown": markdown}).encode() + b"\n" + html.encode(errors="replace")
    async with _semaphores.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_CONCURRENT)):
        return await _run_worker(request)


async def _run_worker(request: bytes) -> ReadablePage:
    started = asyncio.get_running_loop().time()
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        *WORKER_ARGV,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        limit=MAX_LINE,
    )
    stdin, stdout = cast(asyncio.StreamWriter, worker.stdin), cast(asyncio.StreamReader, worker.stdout)
    page: ReadablePage | None = None
    try:
        async with asyncio.timeout_at(started + TIMEOUT_S):
            stdin.write(request)
            stdin.close()
            if line := await stdout.readline():
                page = ReadablePage(**json.loads(line))
        async with asyncio.timeout_at(started + MAIN_TEXT_TIMEOUT_S):
            if page and (line := await stdout.readline()):
                page = ReadablePage(page.title, json.loads(line)["text"] or page.text)
    except TimeoutError:
        if page is None:
            raise ToolFailed("the text of the page could not be extracted in time") from None
    finally:
        with suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()
    if page is None:
        raise ToolFailed("the page could not be read: it is malformed or needs too much memory")
    return page
