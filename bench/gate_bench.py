"""Measure how long the exec gate takes to check a command line, with the ordinary lines of the tests. Nothing is run.

    python -m bench.gate_bench [--rounds 5] [--out FILE]

new          a line for the first time: both parsers, files, rules
shfmt        only the shfmt process, for the same lines
seen         the same line again: its syntax tree is cached; programs, scripts and settings are checked again
names        once per process and after programs are installed: find all names of the files on the PATH

Uses the programs of this host; lines with missing programs are checked too. Rounds are interleaved. On a busy machine, raise the
priority (`chrt -r 1 python -m bench.gate_bench`) and compare medians.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

from bench.gateway.figures import Result, percentile
from bench.report import align_columns
from tests.unit.exec_gate_ordinary import ORDINARY
from tools_app.exec.environment import SEARCH_PATH
from tools_app.exec.gate import executable_names, verdict
from tools_app.exec.gate.shell import shfmt as syntax
from tools_app.exec.gate.types import ExecContext

LABELS = {"new": "new line", "shfmt": "… of which shfmt", "seen": "same line again", "names": "names on the PATH, once"}


def measure(rounds: int) -> Result:
    with tempfile.TemporaryDirectory(prefix="clawsite-gate-") as home:
        workspace = Path(home).resolve()
        (workspace / "src").mkdir()
        for name in ("a.py", "b.py", "script.py", "notes.txt", "src/main.py", "Makefile", "package.json"):
            (workspace / name).write_text("text\n" * 50)
        context = ExecContext(workspace, (workspace,), tuple(map(Path, SEARCH_PATH)))
        times = asyncio.run(_rounds(rounds, context))
        times["names"] = [_time_names() for _ in range(rounds)]
    return {name: _figures(values) for name, values in times.items()} | {"load_average": round(os.getloadavg()[0], 2)}


async def _rounds(rounds: int, context: ExecContext) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"new": [], "shfmt": [], "seen": []}
    for number in range(rounds + 1):
        for line in ORDINARY:
            verdict._cache.clear()
            seconds = {
                "new": await _timed(verdict.analyze(line, context)),
                "seen": await _timed(verdict.analyze(line, context)),
                "shfmt": await _timed(syntax.parse_line(line)),
            }
            if number:  # the first round loads modules and fills caches
                for name, value in seconds.items():
                    times[name].append(value)
    return times


async def _timed(job: Awaitable[object]) -> float:
    started = time.perf_counter()
    await job
    return time.perf_counter() - started


def _time_names() -> float:
    executable_names._names_by_file.cache_clear()
    started = time.perf_counter()
    executable_names._names_by_file(tuple(dict.fromkeys(map(os.path.realpath, SEARCH_PATH))), ())
    return time.perf_counter() - started


def _figures(times: list[float]) -> Result:
    values = {name: percentile(times, share) for name, share in (("p50", 0.5), ("p95", 0.95))}
    return {"n": len(times)} | {name: round((value or 0) * 1000, 3) for name, value in values.items()}


def table(result: Result) -> str:
    lines = [("what, ms", "p50", "p95", "n")]
    for name, label in LABELS.items():
        figures = result[name]
        lines.append((label, f"{figures['p50']:g}", f"{figures['p95']:g}", str(figures["n"])))
    return align_columns(lines) + f"\n{len(ORDINARY)} lines; load average {result['load_average']}, {os.cpu_count()} cores"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench.gate_bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    options = parser.parse_args()
    result = measure(options.rounds)
    print(table(result))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
