"""The exec gate: what it takes to judge a command line, on the ordinary lines that the tests go through. Nothing of them is run.

    python -m bench.gate_bench [--rounds 5] [--out FILE]

new          a line that was not seen before: both parsers, files, rules
shfmt        the parser's process alone, for the same lines
seen         the same line again: its tree is kept, programs, scripts and settings are looked at anew
names        once in a process and after programs were installed: under which names the files on the PATH can be called
Programs are those of this host; a line whose program is not installed is judged all the same. Rounds of all are interleaved.
On a busy machine put it before the others (`chrt -r 1 python -m bench.gate_bench`) and read the medians.
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
from tools_app.exec.gate.shell import parser as syntax
from tools_app.exec.gate.types import ExecContext

WORDS = {"new": "a line not seen before", "shfmt": "… of which shfmt", "seen": "seen before", "names": "names on the PATH, once"}


def measure(rounds: int) -> Result:
    with tempfile.TemporaryDirectory(prefix="clawsite-gate-") as home:
        workspace = Path(home).resolve()
        (workspace / "src").mkdir()
        for name in ("a.py", "b.py", "script.py", "notes.txt", "src/main.py", "Makefile", "package.json"):
            (workspace / name).write_text("text\n" * 50)
        place = ExecContext(workspace, (workspace,), tuple(map(Path, SEARCH_PATH)))
        taken = asyncio.run(_rounds(rounds, place))
        taken["names"] = [_names() for _ in range(rounds)]
    return {name: _figures(values) for name, values in taken.items()} | {"load_average": round(os.getloadavg()[0], 2)}


async def _rounds(rounds: int, place: ExecContext) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {"new": [], "shfmt": [], "seen": []}
    for number in range(rounds + 1):
        for line in ORDINARY:
            verdict._cache.clear()
            seconds = {
                "new": await _timed(verdict.analyze(line, place)),
                "seen": await _timed(verdict.analyze(line, place)),
                "shfmt": await _timed(syntax.parse_line(line)),
            }
            if number:  # the first round loads and fills
                for name, value in seconds.items():
                    taken[name].append(value)
    return taken


async def _timed(job: Awaitable[object]) -> float:
    began = time.perf_counter()
    await job
    return time.perf_counter() - began


def _names() -> float:
    executable_names._names_by_file.cache_clear()
    began = time.perf_counter()
    executable_names._names_by_file(tuple(dict.fromkeys(map(os.path.realpath, SEARCH_PATH))), ())
    return time.perf_counter() - began


def _figures(taken: list[float]) -> Result:
    found = {name: percentile(taken, share) for name, share in (("p50", 0.5), ("p95", 0.95))}
    return {"n": len(taken)} | {name: round((value or 0) * 1000, 3) for name, value in found.items()}


def table(result: Result) -> str:
    lines = [("what, ms", "p50", "p95", "n")]
    for name, words in WORDS.items():
        figures = result[name]
        lines.append((words, f"{figures['p50']:g}", f"{figures['p95']:g}", str(figures["n"])))
    return align_columns(lines) + f"\n{len(ORDINARY)} lines; load average {result['load_average']}, {os.cpu_count()} cores"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench.gate_bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    given = parser.parse_args()
    result = measure(given.rounds)
    print(table(result))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
