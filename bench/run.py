"""Measures Clawsite against its promises: one command, a throw-away installation, a table and a JSON file.

    python -m bench.run                                   every suite, SQLite, medians of 3 (about 9 minutes)
    python -m bench.run overhead throughput --repeat 5    some of them
    python -m bench.run --database postgres               two web and two worker processes on PostgreSQL and Redis
    python -m bench.run --out results.json                where the full result goes

First what the machine does without us, then the suites. Exit code 1 when a promise is not kept. Other suites (faults, crash,
approval) and other gateways: python -m bench.gateway --help. Queues: python -m bench.queue_bench --help.
Pages in a browser: python -m bench.browser --help. The tool policy: python -m bench.policy_bench --help.
The exec gate: python -m bench.gate_bench --help.
"""

import argparse
import asyncio
import datetime as dt
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import calibration, policy_bench, report
from bench.gateway.client import wait_until_up
from bench.gateway.figures import Result
from bench.gateway.options import Options
from bench.gateway.suites.catalog import SUITES
from bench.installation import TOKEN, Installation

# Only the levels that a promise names, and one for comparison. `methods` is last: its 10,000 sessions stay in the store.
LEVELS: dict[str, list[int] | None] = {
    "policy": None,
    "coldstart": None,
    "connect": None,
    "overhead": None,
    "throughput": [1, 50, 100],
    "fanout": [1, 300],
    "idle": None,
    "storm": None,
    "http": None,
    "methods": [10, 10_000],
}
RUN_HERE = {"policy": policy_bench.suite, **SUITES}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="*", help=", ".join(LEVELS) + " (default: all)")
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each suite; the table shows medians (default 3)")
    parser.add_argument("--settle", type=float, default=8, help="seconds before idle memory is read (default 8)")
    parser.add_argument("--out", type=Path, help="write everything measured as JSON")
    given = parser.parse_args()
    if unknown := [name for name in given.suite if name not in LEVELS]:
        parser.error(f"there is no suite {', '.join(unknown)}; choose from {', '.join(LEVELS)}")
    return given


def measure_suite(name: str, opt: Options, repeat: int, tell: Callable[[str], None]) -> list[Result]:
    results = []
    for turn in range(1, repeat + 1):
        began = time.time()
        results.append(asyncio.run(RUN_HERE[name](opt)))
        tell(f"{name} {turn} of {repeat}: {time.time() - began:.0f} s; {report.disturbance(results[-1:])}")
    return results


def measure(given: argparse.Namespace, tell: Callable[[str], None]) -> Result:
    wanted = [name for name in LEVELS if name in (given.suite or LEVELS)]
    installation = Installation(given.database)
    opt = Options(urls=installation.urls, token=TOKEN, llm=installation.llm, launcher=installation.launcher, settle=given.settle)
    results: dict[str, list[Result]] = {}
    try:
        tell("starting the fake model and migrating the database")
        opt.helper_pids = installation.open()
        floor = asyncio.run(calibration.measure(opt.llm))
        print(report.calibration_lines(floor), flush=True)
        alone = ("policy", "coldstart")  # while no gateway runs
        for name in [name for name in wanted if name in alone]:
            results[name] = measure_suite(name, opt, given.repeat, tell)
        if rest := [name for name in wanted if name not in alone]:
            opt.pids = installation.launcher.start()
            try:
                asyncio.run(wait_until_up(opt))
                for name in rest:
                    opt.levels = LEVELS[name]
                    results[name] = measure_suite(name, opt, given.repeat, tell)
            finally:
                installation.launcher.stop()
    except BaseException:
        if installation.log.exists():
            sys.stderr.write(installation.log.read_text(errors="replace")[-4000:])
        raise
    finally:
        installation.close()
    return {"calibration": floor, "results": results}


def main() -> int:
    given = parse_arguments()
    began = time.time()

    def tell(words: str) -> None:
        print(f"[{time.time() - began:5.0f} s] {words}", file=sys.stderr, flush=True)

    measured = measure(given, tell)
    results = measured["results"]
    print(f"\n{given.database}, medians of {given.repeat}\n{report.table(results, given.database)}")
    for name, parts in results.items():
        if words := report.disturbance(parts):
            print(f"{name}: {words}")
    if given.out:
        about: dict[str, Any] = {
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "database": given.database,
            "repeat": given.repeat,
            "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        }
        given.out.write_text(json.dumps({**about, **measured}, indent=1))
        print(f"\nwritten to {given.out}")
    if failed := report.failures(results, given.database):
        print(f"\nnot kept: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
