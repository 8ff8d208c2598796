"""Runs `claw web` or `claw worker` with strings attached. Orders come as JSON lines on stdin; the code under test is not changed.

    {"die": "before", "commits": 3}   kill -9 just before the third commit from now; "after": when it is durable, nobody told yet
    {"lose": 0.5}                     lose that share of what is published on the bus
    {"slow": 0.05}                    every file write of a tool takes so many seconds longer

Every file write of a tool leaves a line in $CLAWSITE_TEST_TALLY before it happens, so that executions can be counted.
The end of stdin is the end of the tests: whoever gave the orders is gone.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

_orders: dict[str, Any] = {"die": "", "commits": 0, "lose": 0.0, "slow": 0.0}
_lock = threading.Lock()


def main() -> None:
    threading.Thread(target=_obey, daemon=True).start()
    _watch_commits()
    _watch_bus()
    if "worker" in sys.argv:
        _watch_writes(Path(os.environ["CLAWSITE_TEST_TALLY"]))
    _mutate()
    from clawsite.cli.main import main as claw

    claw()


def _mutate():
    import django
    from clawsite.infra import process
    which = os.environ.get("CLAWSITE_TEST_MUTANT", "")
    if not which: return
    if "worker" not in sys.argv and which not in ("isnotpast","prepublish","nomend"): return
    keep = os.environ.get("CLAWSITE_PARENT_PID"); tok=os.environ.get("CLAWSITE_GATEWAY_TOKEN")
    os.environ["DJANGO_SETTINGS_MODULE"]="clawsite.settings"
    django.setup()
    if tok: os.environ["CLAWSITE_GATEWAY_TOKEN"]=tok
    from dataclasses import replace
    from sessions_app import hot_sql, tool_calls, events, queue
    from sessions_app.models import Run
    if which=="fence":
        step, append = hot_sql.commit_step, hot_sql.append
        def lease_of(pk): return Run.objects.values_list("lease_token", flat=True).get(pk=pk)
        hot_sql.commit_step = lambda what: step(replace(what, lease=lease_of(what.run_pk)) if what.lease is not None else what)
        hot_sql.append = lambda batch: append([replace(e, lease=lease_of(e.run_pk)) for e in batch])
    if which=="interrupt": tool_calls.interrupt_started = lambda c: None
    if which=="prepublish":
        class T:
            on_commit = staticmethod(lambda f: f())
        events.transaction = T
    if which=="isnotpast":
        from clawsite.gateway.connection import Connection
        Connection.is_past = lambda *a: False
    if which=="nomend":
        from clawsite.gateway.hub import Stream
        ct = Stream.cannot_take
        Stream.cannot_take = lambda self, event: not self.views and ct(self, event)
    if which=="noreset":
        from agents.runner import Runner
        async def nothing(self): pass
        Runner._void_open_answer = nothing
    if which=="lane":
        from sessions_app import sql
        row = sql.row
        sql.row = lambda text, values=(): (64,) if "max_running" in text else row(text, values)


def _obey() -> None:
    for line in sys.stdin:
        with _lock:
            _orders.update(json.loads(line))
    os._exit(1)


def _due(when: str) -> bool:
    with _lock:
        if _orders["die"] != when:
            return False
        _orders["commits"] -= 1
        return bool(_orders["commits"] <= 0)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the signal is on its way; nothing may be done meanwhile


def _watch_commits() -> None:
    from django.db.backends.base.base import BaseDatabaseWrapper

    commit = BaseDatabaseWrapper._commit

    def faulty(self: BaseDatabaseWrapper) -> None:
        if _due("before"):
            _die()
        commit(self)
        if _due("after"):
            _die()

    BaseDatabaseWrapper._commit = faulty


def _watch_bus() -> None:
    from clawsite.infra import bus

    publish = bus.publish

    def lossy(message: dict[str, Any]) -> None:
        if random.random() >= _orders["lose"]:
            publish(message)

    bus.publish = lossy


def _watch_writes(tally: Path) -> None:
    from tools_app.builtin.workspace import Workspace

    write = Workspace.write

    def counted(self: Workspace, path: str, *args: Any, **kwargs: Any) -> Any:
        with tally.open("a") as file:
            file.write(f"{path}\n")
        time.sleep(_orders["slow"])
        return write(self, path, *args, **kwargs)

    Workspace.write = counted  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
