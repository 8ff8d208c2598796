"""The command of a benchmark that measures in rounds: options, a table of percentiles beside their promises, JSON, exit code."""

import argparse
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.gateway.figures import Result
from bench.report import aligned

Promises = Mapping[str, tuple[str, float]]  # figure -> which of its percentiles, and how many milliseconds it may be


def command(program: str, description: str | None, measure: Callable[[str, int], Result], promises: Promises) -> int:
    parser = argparse.ArgumentParser(prog=program, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    given = parser.parse_args()
    result = measure(given.database, given.rounds) | {"load_average": round(os.getloadavg()[0], 2)}
    print(_table(result, promises))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1))
    return int(not all(_kept(result[name], promise) for name, promise in promises.items()))


def _table(result: Result, promises: Promises) -> str:
    lines = [("what, ms", "p50", "p95", "max", "promise")]
    for name, figures in result.items():
        if isinstance(figures, dict):
            told = _told(figures, promises[name]) if name in promises else ""
            lines.append((name, f"{figures['p50']:g}", f"{figures['p95']:g}", f"{figures['max']:g}", told))
    return aligned(lines) + f"\nload average {result['load_average']}, {os.cpu_count()} cores"


def _told(figures: Any, promise: tuple[str, float]) -> str:
    which, limit = promise
    return f"{which} ≤ {limit:g}: {'pass' if _kept(figures, promise) else 'FAIL'}"


def _kept(figures: Any, promise: tuple[str, float]) -> bool:
    which, limit = promise
    return bool(figures[which] <= limit)
