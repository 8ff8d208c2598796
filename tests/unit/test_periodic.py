"""Periodic tasks: declared by apps, run by a host. A failing or hanging task is visible and affects no other."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings
from prometheus_client import CollectorRegistry, Gauge

from clawsite.cli.doctor.host import check_periodic_tasks
from clawsite.infra import bus, periodic
from clawsite.infra.bus import BusMessage
from clawsite.infra.errors import Unavailable
from clawsite.infra.observability import metrics
from clawsite.infra.periodic import PeriodicTask, TaskRunner
from clawsite.infra.process import host as hosting
from clawsite.infra.process.host import Host
from tests.harness.hosting import ROLES, forget_registrations_after
from tests.unit.gateway_fakes import Clock

NAME = "water the plants"


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_registrations_after(monkeypatch)


def value(name: str) -> float | None:
    return metrics.REGISTRY.get_sample_value(f"clawsite_periodic_{name}", {"task": NAME})


class FakeTimers(Clock):
    """`call_later` with a manual clock."""

    def later(self, delay: float, call: Any) -> Any:
        super().later(delay, call)
        return self

    def cancel(self) -> None:
        self._timers.clear()


def make_runner(run: Callable[[], Awaitable[None]], clock: FakeTimers, **options: Any) -> TaskRunner:
    task = replace(PeriodicTask(NAME, run, lambda: 3600.0), **options)
    return TaskRunner(task, now=clock, later=clock.later)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == periodic.__name__]


def test_webhooks_declare_their_tasks(settings):
    from clawsite.connectors.webhook import web_tasks

    tasks = {task.name: task for task in periodic.registered_tasks("web")}
    assert tasks["post webhook results"].run is web_tasks.report_results
    assert tasks["post webhook results"].every() == django_settings.POLL_SECONDS
    assert tasks["delete old webhook deliveries"].every() == 600
    settings.POLL_SECONDS = 7.0
    assert tasks["post webhook results"].every() == 7.0


def test_two_tasks_with_the_same_name_are_rejected():
    async def first() -> None: ...

    async def second() -> None: ...

    periodic.periodic(NAME, on="worker", every=1.0)(first)
    periodic.periodic(NAME, on="web", every=1.0)(second)
    with pytest.raises(ValueError, match="are called 'water the plants'"):
        periodic.periodic(NAME, on="worker", every=2.0)(second)
    (task,) = [task for task in periodic.registered_tasks("worker") if task.name == NAME]
    assert (task.every(), task.run) == (1.0, first)


async def test_task_runs_at_start_and_after_each_hint():
    runs: asyncio.Queue[int] = asyncio.Queue()

    async def run() -> None:
        runs.put_nowait(1)

    for at_start in (True, False):
        runner = make_runner(run, FakeTimers(), at_start=at_start)
        repeating = asyncio.create_task(runner.run_forever())
        if at_start:
            await asyncio.wait_for(runs.get(), 5)
        runner.hint.set()
        await asyncio.wait_for(runs.get(), 5)
        repeating.cancel()
        assert runs.empty()


async def test_failed_task_is_called_again():
    calls: asyncio.Queue[int] = asyncio.Queue()

    async def run() -> None:
        calls.put_nowait(1)
        raise ValueError("no luck")

    repeating = asyncio.create_task(make_runner(run, FakeTimers(), every=lambda: 0.001).run_forever())
    for _ in range(3):
        await asyncio.wait_for(calls.get(), 5)
    repeating.cancel()


async def test_cancellation_of_something_else_does_not_end_the_task(caplog: pytest.LogCaptureFixture):
    calls: asyncio.Queue[int] = asyncio.Queue()

    async def run() -> None:
        calls.put_nowait(1)
        shared = asyncio.get_running_loop().create_future()
        shared.cancel()
        await shared

    repeating = asyncio.create_task(make_runner(run, FakeTimers(), every=lambda: 0.001).run_forever())
    for _ in range(3):
        await asyncio.wait_for(calls.get(), 5)
    repeating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await repeating
    assert lines(caplog) == [f"periodic task '{NAME}' failed"]


async def test_failures_are_counted_and_logged_once_per_state(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    outcomes = iter([ValueError("no luck"), ValueError("again"), Unavailable("no database"), None, None, ValueError("no luck")])

    async def run() -> None:
        if error := next(outcomes):
            raise error

    before = value("failures_total") or 0.0
    runner = make_runner(run, FakeTimers())
    started = value("last_success_timestamp_seconds")
    for _ in range(3):
        await runner.run_once()
    assert value("last_success_timestamp_seconds") == started
    await runner.run_once()
    assert value("last_success_timestamp_seconds") > started
    await runner.run_once()
    await runner.run_once()
    assert value("failures_total") == before + 4
    assert lines(caplog) == [
        f"periodic task '{NAME}' failed",
        f"periodic task '{NAME}' failed: no database",
        f"periodic task '{NAME}' succeeded after 3 failures",
        f"periodic task '{NAME}' failed",
    ]
    assert "no luck" in caplog.text  # with the traceback


async def test_hanging_task_is_reported_once_and_again_when_it_ends(caplog: pytest.LogCaptureFixture):
    clock, go_on, began = FakeTimers(), asyncio.Event(), asyncio.Event()

    async def run() -> None:
        began.set()
        await go_on.wait()

    runner = make_runner(run, clock, hang_after=60.0)
    running = asyncio.create_task(runner.run_once())
    await began.wait()
    clock.pass_(59)
    assert (value("running_seconds"), lines(caplog)) == (59, [])
    clock.pass_(1000)
    assert (value("running_seconds"), lines(caplog)) == (1059, [f"periodic task '{NAME}' has been running for 60 s"])
    assert value("hang_seconds") == 60
    go_on.set()
    await running
    assert (value("running_seconds"), lines(caplog)[1:]) == (0, [f"periodic task '{NAME}' ended after 1059 s"])
    began.clear()
    await runner.run_once()
    assert len(lines(caplog)) == 2


@dataclass(frozen=True)
class LeafFell(BusMessage, kind="leaf of a test"):
    tree: str


@pytest.fixture
def no_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run only what the test registers."""
    monkeypatch.setattr(periodic, "_tasks", {})
    monkeypatch.setattr(hosting, "_start_functions", {"worker": [], "web": []})
    monkeypatch.setattr(hosting, "autodiscover_modules", lambda name: None)


@pytest.fixture
async def host(no_apps: None, settings: Any, tmp_path: Any) -> Any:
    settings.HOME = tmp_path
    return Host("worker", "w1")


async def test_host_runs_what_is_registered_for_its_role(host: Host):
    steps: asyncio.Queue[str] = asyncio.Queue()

    @hosting.on_start("worker")
    async def start(started: Host) -> None:
        assert started.get(list) == ["shared"]
        started.on_stop(lambda: note("stopped first"))
        started.every("of an object", 3600.0, lambda: note("of an object"))
        await note("started")

    @hosting.on_start("web")
    async def start_web(started: Host) -> None:
        raise AssertionError("this is a worker")

    async def note(step: str) -> None:
        steps.put_nowait(step)

    @periodic.periodic("of a function", on="worker", every=3600.0, hint=LeafFell, at_end=True)
    async def run() -> None:
        await note("of a function")

    host.provide(["shared"])
    host.on_stop(lambda: note("stopped last"))
    await host.start()
    assert [await asyncio.wait_for(steps.get(), 5) for _ in range(3)] == ["started", "of an object", "of a function"]
    bus.publish(LeafFell("oak"))
    assert await asyncio.wait_for(steps.get(), 5) == "of a function"
    await host.stop()
    assert [steps.get_nowait() for _ in range(3)] == ["stopped first", "stopped last", "of a function"]
    assert steps.empty()
    assert bus._handlers[LeafFell] == []


async def test_hanging_and_failing_tasks_delay_no_other(host: Host):
    calls: asyncio.Queue[int] = asyncio.Queue()

    @periodic.periodic("hangs", on="worker", every=0.001)
    async def hang() -> None:
        await asyncio.Event().wait()

    @periodic.periodic("fails", on="worker", every=0.001)
    async def fail() -> None:
        raise ValueError

    @periodic.periodic("works", on="worker", every=0.001)
    async def work() -> None:
        calls.put_nowait(1)

    await host.start()
    for _ in range(10):
        await asyncio.wait_for(calls.get(), 5)
    await host.stop()


async def test_failing_stop_function_does_not_keep_others_from_running(host: Host, caplog: pytest.LogCaptureFixture):
    stopped = []

    async def stop() -> None:
        stopped.append(1)

    async def fail() -> None:
        raise ValueError("no luck")

    host.on_stop(stop)
    host.on_stop(fail)
    await host.start()
    await host.stop()
    assert stopped == [1]
    assert "could not stop" in caplog.text


def test_tasks_of_a_role_are_declared_in_the_module_that_processes_with_this_role_import():
    """Tasks declared elsewhere would run only if some other module imported theirs."""
    for role in ROLES:
        functions = [task.run for task in periodic.registered_tasks(role)] + hosting._start_functions[role]
        assert functions
        assert {function.__module__.rpartition(".")[2] for function in functions} == {f"{role}_tasks"}


def test_doctor_names_hanging_and_unsuccessful_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metrics, "REGISTRY", CollectorRegistry())
    gauges = {
        name: Gauge(f"clawsite_periodic_{name}_seconds", name, ["task"], registry=metrics.REGISTRY)
        for name in ("interval", "hang", "running", "last_success_timestamp")
    }
    now = time.time()
    for task, interval, running, since_success in [
        ("healthy", 1, 0, 4),
        ("has a long interval", 3600, 0, 4000),
        ("is slow", 60, 50, 100),
        ("hangs", 1, 90, 91),
        ("fails", 1, 0, 200),
        ("fails slowly", 60, 30, 300),
    ]:
        for name, sample in zip(gauges, (interval, 60, running, now - since_success), strict=True):
            gauges[name].labels(task).set(sample)
    assert check_periodic_tasks(SimpleNamespace(HOME=tmp_path)).text == "0 periodic tasks in 0 processes on this host"
    metrics.write_snapshot(tmp_path, "worker-1-ab")
    result = check_periodic_tasks(SimpleNamespace(HOME=tmp_path))
    assert result.level == "warn"
    assert result.text.split("; ") == [
        "worker-1-ab: “hangs” has been running for 90 s",
        "worker-1-ab: “fails” has not succeeded for 200 s (interval: 1 s)",
        "worker-1-ab: “fails slowly” has not succeeded for 270 s (interval: 60 s)",
    ]


async def test_doctor_finds_tasks_of_a_running_host(host: Host, tmp_path: Path):
    done = asyncio.Event()

    @periodic.periodic(NAME, on="worker", every=1.0)
    async def work() -> None:
        done.set()

    await host.start()
    await asyncio.wait_for(done.wait(), 5)
    metrics.write_snapshot(tmp_path, host.metrics_name)
    (state,) = [state for state in periodic.read_task_states(tmp_path) if state.task == NAME]
    assert (state.process, state.interval, state.hang_after, state.problem) == (host.metrics_name, 1, 60, "")
    await host.stop()
    assert periodic.read_task_states(tmp_path) == []
