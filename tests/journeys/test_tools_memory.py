"""An agent stores a note and finds it again, in real runs of a real worker."""

import json
import threading
from dataclasses import replace

from agents.context.workspace import ensure_workspace
from agents.memory import notes
from agents.models import Agent, MemoryFile
from sessions_app.runs import lifecycle
from tests.harness.worker import WorkerHarness, calls_of, transcript_of
from tools_app.sources import tools as source_tools


def asks(name: str, **arguments) -> str:
    return f"[[tool={name} args={json.dumps(arguments)}]]"


def workspace(user):
    return ensure_workspace(Agent.objects.get(slug="main"), user.pk)


async def results(harness: WorkerHarness, prompt: str) -> list[dict]:
    run = await harness.answer(prompt + "[[text=done]]")
    assert (run.status, transcript_of(run)[-1]) == ("completed", ("assistant", "done"))
    return [call.result for call in calls_of(run)]


async def test_stored_notes_are_found_again(harness: WorkerHarness):
    _, found, shown = await results(
        harness,
        asks("write", path="memory/2026-02-01.md", content="# 会议\n\n预算定为五万。\nThe lobster sleeps.\n")
        + asks("memory_search", query="预算是多少？")
        + asks("memory_get", path="memory/2026-02-01.md", from_line=3, lines=1),
    )
    (hit,) = found["details"]["results"]
    assert (hit["path"], hit["startLine"], hit["endLine"], hit["source"]) == ("memory/2026-02-01.md", 1, 4, "memory")
    assert "预算定为五万" in hit["snippet"]
    assert json.loads(found["content"][0]["text"]) == found["details"]
    assert shown["details"]["text"] == "预算定为五万。"


async def test_invalid_parameters_return_an_error_message(harness: WorkerHarness):
    answers = await results(
        harness,
        asks("memory_search", query="")
        + asks("memory_search", query="x", max_results=0)
        + asks("memory_get", path="MEMORY.md", from_line=0)
        + asks("memory_get", path="../../secrets.md")
        + asks("memory_get", path="notes.txt"),
    )
    told = [answer["content"][0]["text"] for answer in answers]
    assert ["invalid arguments" in each for each in told] == [True, True, True, False, False]
    assert "outside the workspace" in told[3]
    assert "is not a note" in told[4]


async def test_large_result_is_truncated_with_a_notice(harness: WorkerHarness):
    root = workspace(harness.user)
    (root / "memory").mkdir()
    for number in range(60):
        (root / f"memory/{number}.md").write_text("lobster " + "水" * 500 + f"\n{number}")
    (root / "MEMORY.md").write_text(("x" * 7_000 + "\n") * 20)
    found, shown = await results(
        harness, asks("memory_search", query="lobster", max_results=50) + asks("memory_get", path="MEMORY.md")
    )
    assert "did not fit" in found["details"]["cut"]
    assert len(json.dumps(found["details"])) < 100_000
    assert shown["details"]["cut"] == "continue with from_line 9"


async def test_notes_are_isolated_between_users(harness: WorkerHarness, make_user):
    stranger = make_user()
    (workspace(stranger) / "MEMORY.md").write_text("the launch code is 7")
    (workspace(harness.user) / "MEMORY.md").write_text("my shopping list")
    path = str(workspace(stranger) / "MEMORY.md")
    found, shown = await results(harness, asks("memory_search", query="launch code", min_score=0) + asks("memory_get", path=path))
    assert found["details"]["results"] == []
    assert shown["content"][0]["text"].endswith("is outside the workspace: use a path relative to it")


async def test_aborted_search_leaves_the_index_intact(harness: WorkerHarness, eventually, monkeypatch):
    root = workspace(harness.user)
    (root / "memory").mkdir()
    for number in range(3):
        (root / f"memory/{number}.md").write_text(f"lobster {number}")
    first, read, held = [], notes.read_note, threading.Event()

    def slowly(files, path):
        first.append(path)
        if len(first) == 2:
            held.wait(20)
        return read(files, path)

    monkeypatch.setattr(notes, "read_note", slowly)
    run_pk = harness.send(asks("memory_search", query="lobster"))
    await eventually(lambda: len(first) == 2)
    lifecycle.request_abort(user=harness.user, session=harness.session)
    run = await harness.ended(run_pk)
    held.set()
    assert (run.status, calls_of(run)[0].status) == ("aborted", "failed")
    assert MemoryFile.objects.count() == 1
    (found,) = await results(harness, asks("memory_search", query="lobster"))
    assert len(found["details"]["results"]) == 3


async def test_timed_out_search_returns_an_error_message(harness: WorkerHarness, monkeypatch):
    (workspace(harness.user) / "MEMORY.md").write_text("lobster")
    held, read = threading.Event(), notes.read_note
    monkeypatch.setattr(notes, "read_note", lambda files, path: held.wait(20) and read(files, path))
    known = source_tools.load_tools().tools
    hasty = replace(known["memory_search"], factory=replace(known["memory_search"].factory, timeout_s=0.2))
    monkeypatch.setitem(known, "memory_search", hasty)
    (stopped,) = await results(harness, asks("memory_search", query="lobster"))
    held.set()
    assert stopped["details"]["code"] == "tool_timeout"
