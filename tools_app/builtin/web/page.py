"""A web page as readable text. The work is done in tools_app.builtin.web.page_worker; here it is started, fed and limited."""

import asyncio
import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from weakref import WeakKeyDictionary

from tools_app.core.definition import ToolFailed

TIMEOUT_S = 15.0  # for any text at all; a common page takes one second, most of it for the start
QUEUE_TIMEOUT_S = 8.0  # for the main text, from the same moment on; then the text of the whole page must do
MAX_CONCURRENT = 4  # processes of this kind beside each other; each wants a core
MAX_LINE = 64 * 1024 * 1024  # bytes; the text of the largest page that is fetched, escaped
CODE_ROOT = str(Path(__file__).parents[3])
BOOTSTRAP = "import sys; sys.path.append(sys.argv[1]); from tools_app.builtin.web.page_worker import main; main()"
WORKER_ARGV = ("-I", "-c", BOOTSTRAP, CODE_ROOT)

_semaphores: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class ReadablePage:
    title: str
    text: str


async def extract_readable(html: str, url: str, *, markdown: bool) -> ReadablePage:
    """Title and main text; links are kept, and made absolute with `url`, in markdown only."""
    request = json.dumps({"url": url, "markdown": markdown}).encode() + b"\n" + html.encode(errors="replace")
    async with _semaphores.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_CONCURRENT)):
        return await _run_worker(request)


async def _run_worker(request: bytes) -> ReadablePage:
    began = asyncio.get_running_loop().time()
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        *WORKER_ARGV,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        limit=MAX_LINE,
    )
    asked, answers = cast(asyncio.StreamWriter, worker.stdin), cast(asyncio.StreamReader, worker.stdout)
    page: ReadablePage | None = None
    try:
        async with asyncio.timeout_at(began + TIMEOUT_S):
            asked.write(request)
            asked.close()
            if line := await answers.readline():
                page = ReadablePage(**json.loads(line))
        async with asyncio.timeout_at(began + QUEUE_TIMEOUT_S):
            if page and (line := await answers.readline()):
                page = ReadablePage(page.title, json.loads(line)["text"] or page.text)
    except TimeoutError:
        if page is None:
            raise ToolFailed("the page is built in such a way that its text could not be found in time") from None
    finally:
        with suppress(ProcessLookupError):
            worker.kill()
        await worker.wait()
    if page is None:
        raise ToolFailed("the page could not be read: it is broken or needs too much memory")
    return page
