"""Runs `claw web` or `claw worker` with strings attached. Orders come as JSON lines on stdin; the code under test is not changed.

    {"die": "before", "commits": 3}   kill -9 just before the third commit from now; "after": when it is durable, nobody told yet
    {"freeze": 3}                     SIGSTOP itself just before the third commit from now, with all its locks
    {"lose": 0.5, "double": 0.5}      lose that share of what is published on the bus, and send that share of the rest twice
    {"slow": 0.05}                    every file write of a tool takes so many seconds longer

Every file write of a tool leaves a line in the state directory's `tally` before it happens, so that executions can be counted.
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

_orders: dict[str, Any] = {"die": "", "commits": 0, "freeze": 0, "lose": 0.0, "double": 0.0, "slow": 0.0}
_lock = threading.Lock()


def main() -> None:
    threading.Thread(target=_obey, daemon=True).start()
    _watch_commits()
    _watch_bus()
    if "worker" in sys.argv:
        _watch_writes(Path(os.environ["CLAWSITE_HOME"]) / "tally")
    from clawsite.cli.main import main as claw

    claw()


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


def _should_freeze() -> bool:
    with _lock:
        _orders["freeze"] -= 1
        return bool(_orders["freeze"] == 0)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the signal is on its way; nothing may be done meanwhile


def _watch_commits() -> None:
    from django.db.backends.base.base import BaseDatabaseWrapper

    commit = BaseDatabaseWrapper._commit

    def faulty(self: BaseDatabaseWrapper) -> None:
        if _due("before"):
            time.sleep(0.05)  # a commit that takes its time: whatever is told too early is heard by then
            _die()
        if _should_freeze():
            os.kill(os.getpid(), signal.SIGSTOP)
        commit(self)
        if _due("after"):
            _die()

    BaseDatabaseWrapper._commit = faulty


def _watch_bus() -> None:
    from clawsite.infra import bus

    publish = bus.publish

    def lossy(message: dict[str, Any]) -> None:
        if random.random() < _orders["lose"]:
            return
        publish(message)
        if random.random() < _orders["double"]:
            publish(message)

    bus.publish = lossy


def _watch_writes(tally: Path) -> None:
    from tools_app.builtin.files.workspace import Workspace

    write = Workspace.write

    def counted(self: Workspace, path: str, *args: Any, **kwargs: Any) -> Any:
        with tally.open("a") as file:
            file.write(f"{path}\n")
        time.sleep(_orders["slow"])
        return write(self, path, *args, **kwargs)

    Workspace.write = counted  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
