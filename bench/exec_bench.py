"""Starting a command: what each kind of sandbox costs beside plain bash, in the same run.

    python -m bench.exec_bench [--rounds 100] [--line COMMAND] [--out FILE]

plain bash   `bash --norc --noprofile -c true` by subprocess, with nothing around it: the floor
none         limits and the guard that ends the whole tree: two small Python processes stand around the command
landlock     the same with landlock, a filter of system calls and no powers
bubblewrap   namespaces, an empty root, limits, the filter; no Python in between
Each figure is from the order to start until the command has ended and its output was read. Rounds of all of them are interleaved,
so that a busy moment hits all alike; read the ratios rather than the milliseconds. Levels that this host does not have are left
out, and it says so. As root each command also gets a control group, which an ordinary account does without.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.gateway.figures import Result, percentile
from bench.report import align_columns

PLAIN = "plain bash"
WARM_UP = 3


async def plainly(line: str, workspace: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "bash", "--norc", "--noprofile", "-c", line, cwd=workspace, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    await process.communicate()


def shut_in(level: Any) -> Callable[[str, Path], Awaitable[None]]:
    from tools_app.exec.environment import build_environment
    from tools_app.exec.processes.output import OutputCollector
    from tools_app.exec.processes.spawn import start_process
    from tools_app.exec.sandbox.types import Sandbox, SpawnRequest

    async def run(line: str, workspace: Path) -> None:
        sandbox = Sandbox(level, workspace, "rw", network=False, hidden=())
        running = await start_process(SpawnRequest(line, workspace, build_environment(sandbox.home), sandbox, timeout_s=60))
        running.close_stdin()
        collector = OutputCollector()
        async for chunk in running.output():
            collector.feed(chunk)
        await running.wait()

    return run


def kinds() -> dict[str, Callable[[str, Path], Awaitable[None]]]:
    from tools_app.exec.sandbox.available import SandboxLevel, probe_once
    from tools_app.exec.sandbox.probe import REQUIRED, run_attempts

    found: dict[str, Callable[[str, Path], Awaitable[None]]] = {PLAIN: plainly, "none": shut_in(SandboxLevel.NONE)}
    if probe_once().level >= SandboxLevel.LANDLOCK and (
        probe_once().level == SandboxLevel.LANDLOCK or run_attempts(SandboxLevel.LANDLOCK) >= REQUIRED
    ):
        found["landlock"] = shut_in(SandboxLevel.LANDLOCK)
    if probe_once().level == SandboxLevel.BWRAP:
        found["bubblewrap"] = shut_in(SandboxLevel.BWRAP)
    return found


async def measure(rounds: int, line: str) -> Result:
    jobs = kinds()
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    with tempfile.TemporaryDirectory() as made:
        workspace = Path(os.path.realpath(made))  # noqa: ASYNC240  # before anything is measured
        for number in range(rounds + WARM_UP):
            for name, job in jobs.items():
                began = time.perf_counter()
                await job(line, workspace)
                if number >= WARM_UP:
                    seconds[name].append(time.perf_counter() - began)
    return {name: _figures(taken) for name, taken in seconds.items()} | {"load_average": round(os.getloadavg()[0], 2)}


def _figures(taken: list[float]) -> Result:
    found = {name: percentile(taken, share) for name, share in (("p50", 0.5), ("p95", 0.95))}
    return {"n": len(taken)} | {name: round((value or 0) * 1000, 2) for name, value in found.items()}


def table(result: Result) -> str:
    lines = [("start to end, ms", "p50", "p95", "p50 × plain", "p95 × plain", "added, p50")]
    plain = result[PLAIN]
    for name, figures in result.items():
        if name == "load_average":
            continue
        ratios = (f"{figures[part] / plain[part]:.1f}×" for part in ("p50", "p95"))
        lines.append((name, f"{figures['p50']:g}", f"{figures['p95']:g}", *ratios, f"{figures['p50'] - plain['p50']:.1f}"))
    missing = [name for name in ("landlock", "bubblewrap") if name not in result]
    said = f"\nnot on this host: {', '.join(missing)}" if missing else ""
    who = "root" if os.geteuid() == 0 else "an ordinary account"
    return (
        align_columns(lines)
        + f"\n{plain['n']} rounds as {who}; load average {result['load_average']}, {os.cpu_count()} cores{said}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench.exec_bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--line", default="true", help="the command line to run (default: true)")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    given = parser.parse_args()
    from django.conf import settings

    settings.configure(USE_I18N=False)  # words for people are looked up there; nothing else of Django is used
    result = asyncio.run(measure(given.rounds, given.line))
    print(table(result))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
