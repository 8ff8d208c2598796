"""Metrics of a page: Chromium's counters, long tasks and layout shifts.

Times of the main thread are CPU time, so that other programs don't affect them. The longest task is in wall time.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import CDPSession, Page

from bench.gateway.figures import Result

# Runs before the page's scripts. Browsers don't report tasks shorter than 50 ms.
OBSERVE = """
globalThis.bench = { tasks: [], shifts: [] };
const watch = (type, take) => new PerformanceObserver((list) => list.getEntries().forEach(take)).observe({ type, buffered: true });
watch("longtask", ({ duration }) => bench.tasks.push(duration));
watch("layout-shift", ({ hadRecentInput, startTime, value }) => hadRecentInput || bench.shifts.push([startTime, value]));
bench.painted = new Promise((done) => {
  watch("paint", ({ name, startTime }) => name === "first-contentful-paint" && done(startTime));
});
bench.shown = (selector) => new Promise((done) => {
  const look = () => {
    if (document.querySelector(selector)) requestAnimationFrame(() => done(performance.now()));
    else requestAnimationFrame(look);
  };
  look();
});
"""


def visible_after(page: Page, selector: str) -> float:
    """Return the seconds from the start of the navigation to the frame after the element appeared."""
    return float(page.evaluate("(selector) => bench.shown(selector)", selector)) / 1000


@dataclass
class Frames:
    """Counts frames of the page's socket, outside of the page's process."""

    deltas: int = 0
    ends: int = 0
    all: int = 0

    def watch(self, page: Page) -> "Frames":
        page.on("websocket", lambda socket: socket.on("framereceived", self._count))
        return self

    def wait(self, page: Page, name: str, seconds: float = 90) -> None:
        """Wait for one more of `deltas` or `ends`."""
        before = getattr(self, name)
        give_up = time.monotonic() + seconds
        while getattr(self, name) == before:
            if time.monotonic() > give_up:
                raise TimeoutError(f"no {name} of an answer within {seconds:.0f} s")
            page.wait_for_timeout(20)  # Playwright only reports frames while waiting

    def _count(self, payload: str | bytes) -> None:
        text = payload if isinstance(payload, str) else payload.decode()
        self.all += 1
        if '"event":"agent"' in text:
            self.deltas += '"stream":"assistant"' in text
            self.ends += '"phase":"end"' in text


def cumulative_shift(shifts: Sequence[tuple[float, float]]) -> float:
    """Return the worst window as in Web Vitals: at most 5 s long, and ended by 1 s without a shift."""
    worst = window = started = last = 0.0
    for moment, value in shifts:
        if moment - last > 1000 or moment - started > 5000:
            window, started = 0.0, moment
        window, last = window + value, moment
        worst = max(worst, window)
    return worst


class MainThread:
    """Measures a page's main thread between `begin` and `end`."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.cdp: CDPSession = page.context.new_cdp_session(page)
        self.cdp.send("Performance.enable", {"timeDomain": "threadTicks"})

    def begin(self) -> None:
        self.page.evaluate("bench.tasks.length = bench.shifts.length = 0")
        self._before, self._started = self._metrics(), time.monotonic()

    def end(self) -> Result:
        after, seconds = self._metrics(), time.monotonic() - self._started
        spent = {name: after[name] - self._before[name] for name in after}
        tasks, shifts = self.page.evaluate("[bench.tasks, bench.shifts]")
        return {
            "seconds": round(seconds, 2),
            "busy_percent": round(100 * spent["TaskDuration"] / seconds, 2),
            "task_ms": round(1000 * spent["TaskDuration"], 1),
            "script_ms": round(1000 * spent["ScriptDuration"], 1),
            "layout_ms": round(1000 * spent["LayoutDuration"], 1),
            "style_ms": round(1000 * spent["RecalcStyleDuration"], 1),
            "layouts": int(spent["LayoutCount"]),
            "styles": int(spent["RecalcStyleCount"]),
            "long_tasks": len(tasks),
            "longest_task_ms": round(max(tasks, default=0)),
            "layout_shift": round(cumulative_shift(shifts), 4),
            "layout_shift_sum": round(sum(value for _, value in shifts), 4),
            "shifts": len(shifts),
        }

    def heap(self) -> Result:
        """Return the heap size after garbage collection."""
        for _ in range(2):  # the first pass can make more objects collectable
            self.cdp.send("HeapProfiler.collectGarbage")
        metrics = self._metrics()
        return {"heap_mb": round(metrics["JSHeapUsedSize"] / 2**20, 2), "nodes": int(metrics["Nodes"])}

    def _metrics(self) -> dict[str, Any]:
        return {metric["name"]: metric["value"] for metric in self.cdp.send("Performance.getMetrics")["metrics"]}
