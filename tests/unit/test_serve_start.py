"""The order in which `claw serve` starts its processes, which are small scripts here."""

import json
import os
import socket
import sys
from types import SimpleNamespace

import pytest

from clawsite.cli.commands import serve
from clawsite.cli.serving import banner, readiness
from clawsite.infra.process import child

READY = "import os, sys, time; os.write(int(sys.argv[1]), b'ready'); time.sleep(60)"
NEVER_READY = "import time; time.sleep(60)"


@pytest.fixture
def service(monkeypatch, tmp_path):
    """Make a service whose processes run these scripts: service(web=…, prepare=…). `started` has their names in order."""
    spawn = child.spawn
    started: list[str] = []

    def make(*, current: bool, web: str, prepare: str) -> serve.Service:
        scripts = {"web": web, "worker": NEVER_READY, "prepare": prepare}

        def spawn_script(argv, **options):
            name = argv[3]
            started.append(name)
            script_argv = [sys.executable, "-c", scripts[name], *([argv[-1]] if name == "web" else [])]
            return spawn(script_argv, **options)

        monkeypatch.setattr(child, "spawn", spawn_script)
        monkeypatch.setattr(readiness, "schema_is_current", lambda _settings: current)
        monkeypatch.setattr(readiness, "static_is_current", lambda _settings: True)
        listener = socket.create_server(("127.0.0.1", 0))
        settings = SimpleNamespace(GATEWAY_TOKEN="token", DRAIN_SECONDS=0, HOME=tmp_path)
        made = serve.Service(settings, listener, workers=1)
        monkeypatch.setattr(banner, "render_banner", lambda *_args: made.supervisor.stop())
        made.started = started
        return made

    return make


PREPARED = f"print({json.dumps({'done': {}})!r})"


def test_web_with_current_database_does_not_compete_with_prepare(service):
    running = service(current=True, web=READY, prepare=PREPARED)
    assert running.run() == 0
    assert running.started == ["web", "worker", "prepare"]


def test_prepare_comes_first_if_there_is_something_to_prepare(service):
    running = service(current=False, web=READY, prepare=PREPARED)
    assert running.run() == 0
    assert running.started == ["prepare", "web", "worker"]


def test_prepare_runs_even_if_web_never_becomes_ready(service, monkeypatch):
    monkeypatch.setattr(serve, "PREPARE_AFTER_SECONDS", 0.0)
    running = service(current=True, web=NEVER_READY, prepare="raise SystemExit(3)")
    assert running.run() == 3
    assert running.started == ["web", "worker", "prepare"]


def test_prepare_runs_once_if_web_becomes_ready_late(service, monkeypatch, tmp_path):
    monkeypatch.setattr(serve, "PREPARE_AFTER_SECONDS", 0.0)
    begun = tmp_path / "begun"
    late = f"import os; [None for _ in iter(lambda: os.path.exists({str(begun)!r}), True)]; {READY}"
    running = service(current=True, web=late, prepare=f"open({str(begun)!r}, 'w'); {PREPARED}")
    assert running.run() == 0
    assert running.started.count("prepare") == 1


def test_processes_use_one_heap(service):
    running = service(current=True, web=READY, prepare=PREPARED)
    assert running.env["MALLOC_ARENA_MAX"] == os.environ.get("MALLOC_ARENA_MAX", "1")
