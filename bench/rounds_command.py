"""The command line of benchmarks that measure in rounds: options, a table of percentiles and targets, JSON, exit code."""

import argparse
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.gateway.figures import Result
from bench.report import align_columns

Promises = Mapping[str, tuple[str, float]]  # measurement -> percentile, limit in milliseconds


def run_benchmark(program: str, description: str | None, measure: Callable[[str, int], Result], promises: Promises) -> int:
    parser = argparse.ArgumentParser(prog=program, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    options = parser.parse_args()
    result = measure(options.database, options.rounds) | {"load_average": round(os.getloadavg()[0], 2)}
    print(_table(result, promises))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1))
    return int(not all(_is_kept(result[name], promise) for name, promise in promises.items()))


def _table(result: Result, promises: Promises) -> str:
    lines = [("measurement, ms", "p50", "p95", "max", "target")]
    for name, figures in result.items():
        if isinstance(figures, dict):
            verdict = _format_verdict(figures, promises[name]) if name in promises else ""
            lines.append((name, f"{figures['p50']:g}", f"{figures['p95']:g}", f"{figures['max']:g}", verdict))
    return align_columns(lines) + f"\nload average {result['load_average']}, {os.cpu_count()} cores"


def _format_verdict(figures: Any, promise: tuple[str, float]) -> str:
    percentile, limit = promise
    return f"{percentile} ≤ {limit:g}: {'pass' if _is_kept(figures, promise) else 'FAIL'}"


def _is_kept(figures: Any, promise: tuple[str, float]) -> bool:
    percentile, limit = promise
    return bool(figures[percentile] <= limit)
