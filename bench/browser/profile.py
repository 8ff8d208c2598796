"""CPU profiles of Chromium's main thread, as a file for its developer tools and as a short summary."""

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession


@contextlib.contextmanager
def profiled(cdp: CDPSession, path: str) -> Iterator[None]:
    """Profile the block if a path is given. Each profile overwrites the previous one."""
    if not path:
        yield
        return
    cdp.send("Profiler.enable")
    cdp.send("Profiler.setSamplingInterval", {"interval": 200})
    cdp.send("Profiler.start")
    yield
    profile = cdp.send("Profiler.stop")["profile"]
    Path(path).write_text(json.dumps(profile))
    print(f"profile in {path}; self time of its functions:", file=sys.stderr)
    for name, milliseconds in _self_times(profile).most_common(15):
        print(f"  {milliseconds:8.1f} ms  {name}", file=sys.stderr)


def _self_times(profile: dict[str, Any]) -> Counter[str]:
    names = {}
    for node in profile["nodes"]:
        frame = node["callFrame"]
        file = frame["url"].rpartition("/")[2]
        location = f" {file}:{frame['lineNumber'] + 1}" if file else ""
        names[node["id"]] = (frame["functionName"] or "(anonymous)") + location
    spent: Counter[str] = Counter()
    for node, microseconds in zip(profile["samples"], profile["timeDeltas"], strict=True):
        spent[names[node]] += microseconds / 1000
    return spent
