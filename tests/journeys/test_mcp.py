"""MCP servers with a real worker: listed, offered, denied, called, timed out, killed; and no process is left when it dies."""

import signal
import sys

import psutil
import pytest
from django.db import connection

from agents.prepare import run_plan
from sessions_app.models import Run
from sessions_app.runs import lifecycle
from tests.harness.processes import PROJECT
from tests.harness.worker import WorkerHarness, calls_of, events_of, transcript_of
from tests.mcp_servers.fixtures import BIN, ROGUE, programs_of, the_server
from tests.unit.test_outside_text import inside
from tools_app.core.plugin_hooks import HookCall, PluginHook
from tools_app.models import McpServer
from tools_app.policy_store import policies, source_changes
from tools_app.sources.mcp import servers
from tools_app.sources.tools import load_tools


@pytest.fixture
def allowed(database):
    """Also allow these entries for agent main; undone after the test."""
    yield lambda *entries: policies.save_policy(scope="agent", subject="main", profile="coding", also_allow=entries)
    policies.save_policy(scope="agent", subject="main", profile="coding")


@pytest.fixture
def add(database, eventually):
    """Add a server as an operator does, and wait until a worker has connected to it."""

    async def enter(name: str, command: str, *args: str, status: str = "ready", **values) -> McpServer:
        row = source_changes.save_server(McpServer(name=name, enabled=True, command=command, args=list(args), **values))
        await eventually(lambda: McpServer.objects.filter(pk=row.pk, status=status).exists(), seconds=60)
        return McpServer.objects.get(pk=row.pk)

    yield enter
    source_changes.delete_servers(McpServer.objects.all())


CLOCK = (str(BIN / "mcp-server-time"), "--local-timezone", "UTC")
ASK = '[[tool=clock__get_current_time args={"timezone":"Asia/Tokyo"}]] [[text=done]]'


async def test_mcp_tool_is_denied_until_policy_allows_it(harness: WorkerHarness, add, allowed):
    row = await add("clock", *CLOCK)
    assert [tool["name"] for tool in row.tools] == ["get_current_time", "convert_time"]
    run = await harness.answer(ASK)
    (call,) = calls_of(run)
    assert (call.status, call.refused_by) == ("refused", "profile")
    offered = [tool["function"]["name"] for tool in harness.model.bodies[-1].get("tools", [])]
    assert "clock__get_current_time" not in offered

    allowed("clock")
    run = await harness.answer(ASK)
    (call,) = calls_of(run)
    assert (call.status, call.is_error) == ("finished", False)
    assert "+09:00" in transcript_of(run)[2][1]
    offered = [tool["function"]["name"] for tool in harness.model.bodies[-1]["tools"]]
    assert {"clock__get_current_time", "clock__convert_time"} <= set(offered)


async def test_server_disabled_during_run_is_no_longer_called(harness: WorkerHarness, add, allowed, monkeypatch):
    row = await add("srv", sys.executable, ROGUE, "good")
    allowed("srv")

    def switch_off(call: HookCall) -> None:  # between the model's answer and the decision
        source_changes.switch_servers([row], on=False)
        connection.close()

    monkeypatch.setattr(run_plan, "tools_and_hooks", lambda: (load_tools(), (PluginHook("operator", switch_off),)))
    run = await harness.answer("[[tool=srv__ping args={}]] [[text=done]]")
    (call,) = calls_of(run)
    assert (call.status, call.refused_by) == ("refused", "toolset")
    assert "tool_not_allowed: `srv__ping` is unavailable in this run: MCP server `srv` is disabled" in transcript_of(run)[2][1]
    assert (run.status, transcript_of(run)[-1]) == ("completed", ("assistant", "done"))


async def test_long_result_is_truncated_with_a_notice(harness: WorkerHarness, add, allowed):
    await add("srv", sys.executable, ROGUE, "flood")
    allowed("srv")
    run = await harness.answer("[[tool=srv__ping args={}]] [[text=done]]")
    (call,) = calls_of(run)
    text = call.result["content"][0]["text"]
    assert (run.status, call.status) == ("completed", "finished")
    assert len(text.encode()) <= 101 * 1024
    assert "[cut: " in text


@pytest.mark.parametrize("entry", ["clock__*", "group:plugins", "clock__get_current_time"])
async def test_pattern_group_or_name_allows_mcp_tool(harness: WorkerHarness, add, allowed, entry):
    await add("clock", *CLOCK)
    allowed(entry)
    assert calls_of(await harness.answer(ASK))[0].status == "finished"


async def test_invalid_arguments_never_reach_the_server(harness: WorkerHarness, add, allowed):
    await add("clock", *CLOCK)
    allowed("clock")
    run = await harness.answer('[[tool=clock__get_current_time args={"zone":5}]] [[text=done]]')
    assert "Missing required parameter: timezone" in transcript_of(run)[2][1]
    assert calls_of(run)[0].is_error
    assert run.status == "completed"


async def test_timed_out_call_is_cancelled_and_run_continues(harness: WorkerHarness, add, allowed, tmp_path, eventually):
    await add("bench", sys.executable, "-m", "tests.mcp_servers.sdk_server", env={"PYTHONPATH": str(PROJECT)}, timeout_seconds=1)
    allowed("bench")
    mark = tmp_path / "mark"
    run = await harness.answer(f'[[tool=bench__slow args={{"seconds":60,"mark":"{mark}"}}]] [[text=done]]')
    assert "tool_timeout" in transcript_of(run)[2][1]
    assert (run.status, transcript_of(run)[-1]) == ("completed", ("assistant", "done"))
    shown = [event.data for event in events_of(run) if event.stream == "tool" and event.data["phase"] == "update"]
    assert "half way" in str(shown)
    await eventually(mark.exists)


async def test_abort_cancels_the_call_on_the_server(harness: WorkerHarness, add, allowed, tmp_path, eventually):
    await add("bench", sys.executable, "-m", "tests.mcp_servers.sdk_server", env={"PYTHONPATH": str(PROJECT)})
    allowed("bench")
    mark = tmp_path / "mark"
    run_pk = harness.send(f'[[tool=bench__slow args={{"seconds":60,"mark":"{mark}"}}]]')
    await eventually(lambda: any(event.data.get("phase") == "update" for event in events_of(run_pk)))
    lifecycle.request_abort(user=harness.user, session=harness.session)
    assert (await harness.ended(run_pk)).status == "aborted"
    await eventually(mark.exists)


async def test_failed_server_is_reported_and_fails_only_its_call(harness: WorkerHarness, add, allowed, eventually):
    row = await add("srv", sys.executable, ROGUE, "dies")
    allowed("srv")
    run = await harness.answer("[[tool=srv__ping args={}]] [[text=done]]")
    assert "was lost during the call" in transcript_of(run)[2][1]
    assert run.status == "completed"
    await eventually(lambda: McpServer.objects.get().restarts > 0)
    assert McpServer.objects.get().tools == row.tools
    bad = await add("bad", sys.executable, ROGUE, "crash", status="failing")
    assert bad.error == "it ended: the licence has run out: token=[redacted]"


async def test_killed_server_is_restarted_for_the_next_call(harness: WorkerHarness, add, allowed, eventually):
    await add("srv", sys.executable, ROGUE, "good")
    allowed("srv")
    the_server().send_signal(signal.SIGKILL)
    await eventually(lambda: McpServer.objects.get().status == "failing")
    run = await harness.answer('[[tool=srv__ping args={"word":"back"}]] [[text=done]]')
    assert inside(transcript_of(run)[2][1]) == "back"


async def test_restart_disable_and_delete_reach_the_worker(harness: WorkerHarness, add, eventually):
    row = await add("srv", sys.executable, ROGUE, "good")
    first = the_server().pid
    servers.restart_servers([row])
    await eventually(lambda: McpServer.objects.get().status == "ready" and the_server().pid != first)
    source_changes.switch_servers([row], on=False)
    await eventually(lambda: programs_of() == [])
    assert McpServer.objects.get().status == "off"
    source_changes.switch_servers([row], on=True)
    await eventually(lambda: McpServer.objects.get().status == "ready")
    source_changes.delete_servers([row])
    await eventually(lambda: programs_of() == [])


async def test_stopping_worker_stops_its_servers(harness: WorkerHarness, add):
    await add("srv", sys.executable, ROGUE, "children")
    assert programs_of()
    await harness.close()
    assert programs_of() == []


async def test_killed_worker_leaves_no_server_process(stack, add, eventually):
    running = stack(env={"CLAWSITE_LEASE_SECONDS": "5"})
    await add("srv", sys.executable, ROGUE, "children")
    (worker,) = running.workers
    # Found while their parent is alive: afterwards they can't be attributed.
    left = programs_of(psutil.Process(worker.pid))
    assert len(left) >= 4  # guard, server, and the two processes it started
    worker.kill()
    await eventually(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in left))


async def test_worker_in_separate_process_calls_server(stack, add, allowed, user, make_session, eventually):
    stack(env={"CLAWSITE_LEASE_SECONDS": "5"})
    await add("clock", *CLOCK)
    allowed("clock")
    run_pk = lifecycle.accept_run(user=user, session=make_session(user), run_id="k1", prompt=ASK).pk
    run = await eventually(lambda: Run.objects.filter(pk=run_pk, status__in=Run.ENDED).first(), seconds=40)
    assert run.status == "completed"
    assert "+09:00" in transcript_of(run)[2][1]
