"""Run `claw web` or `claw worker` with injected faults; the code itself is unchanged. Instructions are JSON lines on stdin:

    {"die": "before", "commits": 3}   SIGKILL before the third commit from now; "after": when it is durable but not yet reported
    {"freeze": 3}                     suspend itself just before the third commit from now, with all its locks
    {"lose": 0.5, "double": 0.5}      lose this share of bus messages, and send this share of the rest twice
    {"slow": 0.05}                    delay every file write of a tool by this many seconds

Every file write of a tool is first recorded in `tally` in the state directory, so that executions can be counted.
The process exits at the end of stdin, because then the tests are gone.
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

_faults: dict[str, Any] = {"die": "", "commits": 0, "freeze": 0, "lose": 0.0, "double": 0.0, "slow": 0.0}
_lock = threading.Lock()


def main() -> None:
    threading.Thread(target=_read_instructions, daemon=True).start()
    _watch_commits()
    _watch_bus()
    if "worker" in sys.argv:
        _watch_writes(Path(os.environ["CLAWSITE_HOME"]) / "tally")
    from clawsite.cli.main import main as claw

    claw()


def _read_instructions() -> None:
    for line in sys.stdin:
        with _lock:
            _faults.update(json.loads(line))
    os._exit(1)


def _due(when: str) -> bool:
    with _lock:
        if _faults["die"] != when:
            return False
        _faults["commits"] -= 1
        return bool(_faults["commits"] <= 0)


def _should_freeze() -> bool:
    with _lock:
        _faults["freeze"] -= 1
        return bool(_faults["freeze"] == 0)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # nothing may happen until the signal arrives


def _watch_commits() -> None:
    from django.db.backends.base.base import BaseDatabaseWrapper

    commit = BaseDatabaseWrapper._commit

    def faulty(self: BaseDatabaseWrapper) -> None:
        if _due("before"):
            time.sleep(0.05)  # a slow commit: anything published too early arrives by then
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
        if random.random() < _faults["lose"]:
            return
        publish(message)
        if random.random() < _faults["double"]:
            publish(message)

    bus.publish = lossy


def _watch_writes(tally: Path) -> None:
    from tools_app.builtin.files.workspace import Workspace

    write = Workspace.write

    def counted(self: Workspace, path: str, *args: Any, **kwargs: Any) -> Any:
        with tally.open("a") as file:
            file.write(f"{path}\n")
        time.sleep(_faults["slow"])
        return write(self, path, *args, **kwargs)

    Workspace.write = counted  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
