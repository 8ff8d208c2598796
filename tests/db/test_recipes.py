"""The recipes of docs/architecture.md, followed literally: their code becomes an app, and everything it adds works."""

import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from clawsite.gateway.server import runtime
from clawsite.infra.bus import messages
from sessions_app.runs import waiting
from tests.harness.hosting import forget_registrations_after
from tests.harness.policies import restore_policy
from tests.harness.waits import waiting_for
from tests.harness.worker import WorkerHarness, calls_of, phases_of, transcript_of
from tools_app.policy_store import policies
from tools_app.sources import registry
from tools_app.sources import tools as source_tools

PAGE = Path(__file__).parent.parent.parent / "docs" / "architecture.md"
BLOCK = re.compile(r"^```python\n# garden/(\w+\.py)(, continued)?\n(.*?)^```", re.S | re.M)


def write_app(folder: Path) -> None:
    """Write the recipes' code into the files that it names."""
    folder.mkdir()
    (folder / "__init__.py").touch()
    for name, continued, code in BLOCK.findall(PAGE.read_text()):
        assert (folder / name).exists() == bool(continued)
        with (folder / name).open("a") as file:
            file.write(code)


def forget_app(folder: Path) -> None:
    registry.load_installed.cache_clear()
    source_tools.clear_caches()
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "") or "").startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def garden(database, tmp_path: Path, settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the app of the recipes, and allow its tools."""
    forget_registrations_after(monkeypatch)
    for owner, name in [(waiting, "_kinds"), (messages, "_classes")]:
        monkeypatch.setattr(owner, name, dict(getattr(owner, name)))
    monkeypatch.syspath_prepend(str(tmp_path))
    write_app(tmp_path / "garden")
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "garden"]
    registry.load_installed.cache_clear()
    source_tools.clear_caches()
    with restore_policy():
        policies.save_policy(scope="agent", subject="main", profile="full", also_allow=["water", "harvest"])
        yield
    forget_app(tmp_path)


@pytest.fixture
async def restarted(garden: None, harness: WorkerHarness) -> WorkerHarness:
    """A worker that was started after the app was installed."""
    await harness.close()
    harness.open()
    return harness


def prompt(tool: str, **args: object) -> str:
    return f"[[tool={tool} args={json.dumps(args)}]][[text=done]]"


async def test_added_tool_can_be_called(restarted: WorkerHarness):
    run = await restarted.answer(prompt("water", plant="fern"))
    assert ("toolResult", "The fern has been watered.") in transcript_of(run)


async def test_added_wait_parks_the_run_and_resumes_it(restarted: WorkerHarness, tmp_path: Path, settings, eventually):
    settings.HOME = tmp_path
    report = tmp_path / "harvest" / "7.txt"
    report.parent.mkdir()
    run_pk = restarted.send(prompt("harvest", report=7))
    await restarted.until(run_pk, "waiting")
    assert waiting_for(run_pk) == "external"
    await eventually(lambda: not restarted.busy)
    report.write_text("12 pumpkins")
    run = await restarted.ended(run_pk)
    assert (run.status, calls_of(run)[0].status) == ("completed", "finished")
    assert ("toolResult", "12 pumpkins") in transcript_of(run)
    assert phases_of(run) == ["accepted", "start", "waiting", "resume", "end"]


async def test_added_tool_reads_no_other_file(restarted: WorkerHarness):
    run = await restarted.answer(prompt("harvest", report=str(PAGE)))
    assert calls_of(run)[0].result["details"] == {"code": "invalid_arguments"}


async def test_added_task_runs_and_its_message_arrives(garden: None, harness: WorkerHarness, eventually, caplog):
    caplog.set_level(logging.INFO, logger="garden")
    await harness.close()
    await runtime.get_runtime()
    harness.open()  # the app's task publishes the message at the start
    await eventually(lambda: "3 plants were watered" in caplog.text)
    await runtime.stop()
