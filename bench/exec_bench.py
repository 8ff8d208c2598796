"""Measure the cost of starting a command in each sandbox level, compared with plain bash in the same run.

    python -m bench.exec_bench [--rounds 100] [--line COMMAND] [--out FILE]

plain bash   `bash --norc --noprofile -c true` started by subprocess: the baseline
none         resource limits and the guard that kills the whole process tree: two small Python processes per command
landlock     the same with landlock, a system call filter and no capabilities
bubblewrap   namespaces, an empty root, limits and the filter; no Python process

Each figure is the time from starting the command until it has ended and its output was read. Rounds are interleaved, so that
other load affects all levels; compare the ratios rather than the milliseconds. Levels that this host does not support are skipped
and listed. As root, each command also gets a control group.
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


async def run_plain(line: str, workspace: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "bash", "--norc", "--noprofile", "-c", line, cwd=workspace, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    await process.communicate()


def sandboxed(level: Any) -> Callable[[str, Path], Awaitable[None]]:
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


def list_levels() -> dict[str, Callable[[str, Path], Awaitable[None]]]:
    from tools_app.exec.sandbox.available import SandboxLevel, probe_once
    from tools_app.exec.sandbox.probe import REQUIRED, run_attempts

    levels: dict[str, Callable[[str, Path], Awaitable[None]]] = {PLAIN: run_plain, "none": sandboxed(SandboxLevel.NONE)}
    if probe_once().level >= SandboxLevel.LANDLOCK and (
        probe_once().level == SandboxLevel.LANDLOCK or run_attempts(SandboxLevel.LANDLOCK) >= REQUIRED
    ):
        levels["landlock"] = sandboxed(SandboxLevel.LANDLOCK)
    if probe_once().level == SandboxLevel.BWRAP:
        levels["bubblewrap"] = sandboxed(SandboxLevel.BWRAP)
    return levels


async def measure(rounds: int, line: str) -> Result:
    jobs = list_levels()
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    with tempfile.TemporaryDirectory() as directory:
        workspace = Path(os.path.realpath(directory))  # noqa: ASYNC240  # before the measurement
        for number in range(rounds + WARM_UP):
            for name, job in jobs.items():
                started = time.perf_counter()
                await job(line, workspace)
                if number >= WARM_UP:
                    seconds[name].append(time.perf_counter() - started)
    return {name: _figures(times) for name, times in seconds.items()} | {"load_average": round(os.getloadavg()[0], 2)}


def _figures(times: list[float]) -> Result:
    values = {name: percentile(times, share) for name, share in (("p50", 0.5), ("p95", 0.95))}
    return {"n": len(times)} | {name: round((value or 0) * 1000, 2) for name, value in values.items()}


def table(result: Result) -> str:
    lines = [("start to end, ms", "p50", "p95", "p50 × plain", "p95 × plain", "added, p50")]
    plain = result[PLAIN]
    for name, figures in result.items():
        if name == "load_average":
            continue
        ratios = (f"{figures[part] / plain[part]:.1f}×" for part in ("p50", "p95"))
        lines.append((name, f"{figures['p50']:g}", f"{figures['p95']:g}", *ratios, f"{figures['p50'] - plain['p50']:.1f}"))
    missing = [name for name in ("landlock", "bubblewrap") if name not in result]
    skipped = f"\nnot supported on this host: {', '.join(missing)}" if missing else ""
    account = "root" if os.geteuid() == 0 else "an unprivileged account"
    return (
        align_columns(lines)
        + f"\n{plain['n']} rounds as {account}; load average {result['load_average']}, {os.cpu_count()} cores{skipped}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench.exec_bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--line", default="true", help="the command line to run (default: true)")
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    options = parser.parse_args()
    from django.conf import settings

    settings.configure(USE_I18N=False)  # only gettext needs the settings
    result = asyncio.run(measure(options.rounds, options.line))
    print(table(result))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
