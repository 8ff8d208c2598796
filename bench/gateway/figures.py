"""Percentiles and medians. A value that could not be measured is None, never 0."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

Result = dict[str, Any]


def percentile(values: Sequence[float], share: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None


def milliseconds(seconds: Iterable[float | None]) -> Result | None:
    """Return p50, p95 and maximum in milliseconds of times in seconds."""
    values = [value * 1000 for value in seconds if value is not None]
    if not values:
        return None
    p50, p95 = percentile(values, 0.5), percentile(values, 0.95)
    assert p50 is not None
    assert p95 is not None
    return {"n": len(values), "p50": round(p50, 2), "p95": round(p95, 2), "max": round(max(values), 2)}


def median_of(results: Sequence[Any]) -> Any:
    """Return the medians of results with the same shape. Text is kept if all are equal, otherwise listed."""
    first = next((result for result in results if result is not None), None)
    if isinstance(first, dict):
        keys = {key: None for result in results if isinstance(result, dict) for key in result}
        return {key: median_of([result.get(key) for result in results if isinstance(result, dict)]) for key in keys}
    numbers = [result for result in results if isinstance(result, int | float) and not isinstance(result, bool)]
    if numbers:
        return round(statistics.median(numbers), 3)
    return first if all(result == first for result in results) else list(results)


def worst_of(results: Sequence[Result], path: Sequence[str], *, largest: bool) -> Any:
    """Return the worst value of all repetitions: a median would hide errors and losses."""
    values = [value for result in results if (value := leaf(result, path)) is not None]
    return (max(values) if largest else min(values)) if values else None


def leaf(result: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(result, dict):
            return None
        result = result.get(name)
    return result
