"""Format benchmark results as tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.gateway.figures import Result, leaf
from bench.promises import PROMISES

HEAD = ("measurement", "target", "result", "OpenClaw", "ratio", "")


def table(results: Mapping[str, Sequence[Result]], database: str) -> str:
    """Return one line per target or measurement of the suites that were run."""
    lines: list[tuple[str, ...]] = [HEAD]
    for promise in PROMISES:
        if promise.suite not in results:
            continue
        figure = promise.figure(results[promise.suite])
        sign = "≥" if promise.at_least else "≤"
        limit = "" if promise.limit is None else f"{sign} {promise.limit:g} {promise.unit}"
        openclaw = "" if promise.openclaw is None else f"{promise.openclaw:g} {promise.unit}"
        verdict = {None: "", True: "pass", False: "FAIL"}[promise.verdict(figure, database)]
        ratio = _ratio(figure, promise.openclaw, promise.at_least)
        lines.append((promise.label, limit, _with_unit(figure, promise.unit), openclaw, ratio, verdict))
    return align_columns(lines)


def failures(results: Mapping[str, Sequence[Result]], database: str) -> list[str]:
    return [
        promise.label
        for promise in PROMISES
        if promise.suite in results and promise.verdict(promise.figure(results[promise.suite]), database) is False
    ]


def calibration_lines(calibration: Result) -> str:
    rows = [("baseline on this machine, in this run", "p50", "p95")]
    for name, value in calibration.items():
        if isinstance(value, dict):
            rows.append((name.removesuffix("_ms").replace("_", " "), f"{value['p50']} ms", f"{value['p95']} ms"))
    return align_columns(rows) + f"\nload average {calibration['load_average']}, {calibration['cores']} cores"


def disturbance(results: Iterable[Result]) -> str:
    """Describe how much CPU other processes used while a suite ran."""
    loads_by_part = [(part["other_cpu"], part["load_average"]) for result in results for part in _metered(result)]
    if not loads_by_part:
        return ""
    others, loads = zip(*loads_by_part, strict=True)
    return f"other processes {min(others):.2f}-{max(others):.2f} cores, load average {min(loads):.2f}-{max(loads):.2f}"


def _metered(result: Any) -> Iterable[Result]:
    if isinstance(result, dict):
        if "other_cpu" in result:
            yield result
        for name in result:
            yield from _metered(leaf(result, (name,)))


def _with_unit(figure: Any, unit: str) -> str:
    if isinstance(figure, bool):
        return str(int(figure))
    return "not measured" if figure is None else f"{figure:g} {unit}".strip() if isinstance(figure, int | float) else str(figure)


def _ratio(figure: Any, openclaw: float | None, at_least: bool) -> str:
    """Return by what factor the result is better than OpenClaw's."""
    if not openclaw or not isinstance(figure, int | float) or not figure:
        return ""
    return f"{figure / openclaw if at_least else openclaw / figure:.1f}×"


def align_columns(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([rows[0], "-" * len(rows[0].ljust(sum(widths) + 2 * len(widths) - 2)), *rows[1:]])
