"""What a process doesn't import at startup, because few servers need it, or sockets don't, and it would delay all of them."""

import asyncio
import functools
import gc
import subprocess
import sys
import threading

import pytest
from channels.testing import HttpCommunicator

from clawsite.infra.process.garbage import collection_paused, exempt_loaded_modules

LATER = ("ninja", "django.test", "jinja2", "litellm", "mcp", "opentelemetry.sdk", "opentelemetry.exporter", "schemathesis")
LOADED = """
import sys
import {module}
print(*sys.modules, sep="\\n")
"""


def loaded_with(module: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", LOADED.format(module=module)], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_web_process_start_does_not_import_optional_modules():
    seen = loaded_with("clawsite.asgi, clawsite.urls, clawsite.api.rest.mount")
    assert "clawsite.api.rest.mount" in seen
    assert [name for name in LATER if name in seen] == []


def test_web_process_accepts_sockets_before_it_imports_pages():
    seen = loaded_with("clawsite.asgi")
    assert "clawsite.ws" in seen
    assert [name for name in ("clawsite.urls", "clawsite.web.chat.page", "clawsite.web.middleware.signed_in") if name in seen] == []


async def test_early_page_request_loads_the_pages_on_a_thread(monkeypatch):
    from clawsite import asgi

    threads = []
    load = asgi.load_handlers.__wrapped__

    @functools.cache
    def load_and_note():
        threads.append(threading.current_thread())
        return load()

    monkeypatch.setattr(asgi, "load_handlers", load_and_note)
    monkeypatch.setattr(asgi.runtime, "start_in_background", lambda: None)
    responses = [
        HttpCommunicator(asgi.http, "GET", "/healthz", headers=[(b"host", b"localhost")]).get_response(timeout=60) for _ in range(2)
    ]
    assert [response["status"] for response in await asyncio.gather(*responses)] == [200, 200]
    assert threading.main_thread() not in threads


def test_garbage_collection_continues_after_the_imports():
    frozen = gc.get_freeze_count()
    try:
        with pytest.raises(ImportError), collection_paused():
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled()
        exempt_loaded_modules()
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()
