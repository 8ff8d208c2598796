"""Measure Clawsite against its targets, on a temporary server. Prints a table and writes a JSON file.

    python -m bench.run                                   every suite, SQLite, medians of 3 (about 9 minutes)
    python -m bench.run overhead throughput --repeat 5    only these suites
    python -m bench.run --database postgres               two web and two worker processes on PostgreSQL and Redis
    python -m bench.run --out results.json                write all results

Calibrates the machine without Clawsite first, then runs the suites. The exit code is 1 if a target is missed.

Other suites (faults, crash, approval) and other gateways: python -m bench.gateway --help
Queues: python -m bench.queue_bench --help                 Pages in a browser: python -m bench.browser --help
The tool policy: python -m bench.policy_bench --help       The exec gate: python -m bench.gate_bench --help
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

# Only levels with a target, and one for comparison. `methods` is last, because its 10,000 sessions stay in the database.
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
ALL_SUITES = {"policy": policy_bench.suite, **SUITES}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", nargs="*", help=", ".join(LEVELS) + " (default: all)")
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each suite; the table shows medians (default 3)")
    parser.add_argument("--settle", type=float, default=8, help="seconds before idle memory is read (default 8)")
    parser.add_argument("--out", type=Path, help="write everything measured as JSON")
    options = parser.parse_args()
    if unknown := [name for name in options.suite if name not in LEVELS]:
        parser.error(f"unknown suite: {', '.join(unknown)}; choose from {', '.join(LEVELS)}")
    return options


def measure_suite(name: str, opt: Options, repeat: int, log: Callable[[str], None]) -> list[Result]:
    results = []
    for turn in range(1, repeat + 1):
        started = time.time()
        results.append(asyncio.run(ALL_SUITES[name](opt)))
        log(f"{name} {turn} of {repeat}: {time.time() - started:.0f} s; {report.disturbance(results[-1:])}")
    return results


def measure(options: argparse.Namespace, log: Callable[[str], None]) -> Result:
    names = [name for name in LEVELS if name in (options.suite or LEVELS)]
    installation = Installation(options.database)
    opt = Options(urls=installation.urls, token=TOKEN, llm=installation.llm, launcher=installation.launcher, settle=options.settle)
    results: dict[str, list[Result]] = {}
    try:
        log("starting the fake model and migrating the database")
        opt.helper_pids = installation.open()
        baseline = asyncio.run(calibration.measure(opt.llm))
        print(report.calibration_lines(baseline), flush=True)
        standalone = ("policy", "coldstart")  # run before the gateway is started
        for name in [name for name in names if name in standalone]:
            results[name] = measure_suite(name, opt, options.repeat, log)
        if rest := [name for name in names if name not in standalone]:
            opt.pids = installation.launcher.start()
            try:
                asyncio.run(wait_until_up(opt))
                for name in rest:
                    opt.levels = LEVELS[name]
                    results[name] = measure_suite(name, opt, options.repeat, log)
            finally:
                installation.launcher.stop()
    except BaseException:
        if installation.log.exists():
            sys.stderr.write(installation.log.read_text(errors="replace")[-4000:])
        raise
    finally:
        installation.close()
    return {"calibration": baseline, "results": results}


def main() -> int:
    options = parse_arguments()
    started = time.time()

    def log(message: str) -> None:
        print(f"[{time.time() - started:5.0f} s] {message}", file=sys.stderr, flush=True)

    measured = measure(options, log)
    results = measured["results"]
    print(f"\n{options.database}, medians of {options.repeat}\n{report.table(results, options.database)}")
    for name, parts in results.items():
        if load := report.disturbance(parts):
            print(f"{name}: {load}")
    if options.out:
        metadata: dict[str, Any] = {
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "database": options.database,
            "repeat": options.repeat,
            "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        }
        options.out.write_text(json.dumps({**metadata, **measured}, indent=1))
        print(f"\nwritten to {options.out}")
    if failed := report.failures(results, options.database):
        print(f"\nnot kept: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
