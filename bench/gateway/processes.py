"""Measure the memory and CPU used by the gateway's processes, by this benchmark and by everything else on the machine."""

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import psutil

from bench.gateway.figures import Result
from bench.gateway.options import Options

# litellm itself is plain Python and does not appear in a process's memory maps; these compiled dependencies do.
LITELLM_LIBRARIES = ("tiktoken", "tokenizers")


def tree(pids: Iterable[int]) -> list[psutil.Process]:
    processes = []
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            parent = psutil.Process(pid)
            processes += [parent, *parent.children(recursive=True)]
    return processes


def memory(pids: Iterable[int]) -> Result | None:
    """Return RSS and PSS (shared pages counted once) of all processes, and whether any has loaded litellm."""
    processes = tree(pids)
    if not processes:
        return None
    rss = pss = 0
    each, litellm = {}, False
    for process in processes:
        with contextlib.suppress(psutil.Error, OSError):
            info = process.memory_full_info()
            rss, pss = rss + info.rss, pss + info.pss
            each[_name(process)] = round(info.pss / 2**20)
            maps = Path(f"/proc/{process.pid}/maps").read_text()
            litellm = litellm or any(library in maps for library in LITELLM_LIBRARIES)
    return {
        "processes": len(processes),
        "rss_mb": round(rss / 2**20),
        "pss_mb": round(pss / 2**20),
        "pss_each": each,
        "litellm_loaded": litellm,
    }


def _name(process: psutil.Process) -> str:
    """Return the command of a gateway process (`web`, `worker`, `serve`), or else the program's name."""
    arguments: list[str] = process.cmdline()
    return next((name for name in arguments if name in ("serve", "web", "worker", "prepare")), str(process.name()))


def cpu_seconds(pids: Iterable[int]) -> dict[int, tuple[str, float]]:
    spent = {}
    for process in tree(pids):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            spent[process.pid] = (_name(process), times.user + times.system)
    return spent


def busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)  # guest is part of user and nice


class Meter:
    """Measures wall time and CPU usage in cores while the block runs.

    If `harness_cpu` is near 1.0, the benchmark itself was the bottleneck; a high `other_cpu` means interference by other programs.
    """

    seconds: float
    result: Result

    def __init__(self, opt: Options) -> None:
        self.opt = opt

    def __enter__(self) -> "Meter":
        self._own, self._busy = time.process_time(), busy_seconds()
        self._gateway, self._helpers = cpu_seconds(self.opt.pids), cpu_seconds(self.opt.helper_pids)
        self._wall = time.time()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.seconds = max(time.time() - self._wall, 1e-6)
        own = time.process_time() - self._own
        gateway = _spent_since(self._gateway, cpu_seconds(self.opt.pids))
        helpers = sum(_spent_since(self._helpers, cpu_seconds(self.opt.helper_pids)).values())
        other = busy_seconds() - self._busy - own - sum(gateway.values()) - helpers
        self.result = {
            "seconds": round(self.seconds, 3),
            "harness_cpu": round(own / self.seconds, 2),
            "gateway_cpu": round(sum(gateway.values()) / self.seconds, 2),
            "gateway_cpu_each": {name: round(spent / self.seconds, 2) for name, spent in gateway.items()},
            "helpers_cpu": round(helpers / self.seconds, 2),
            "other_cpu": round(max(other, 0.0) / self.seconds, 2),
            "load_average": round(os.getloadavg()[0], 2),
        }


def _spent_since(before: dict[int, tuple[str, float]], after: dict[int, tuple[str, float]]) -> dict[str, float]:
    spent: dict[str, float] = {}
    for pid, (name, seconds) in after.items():
        spent[name] = spent.get(name, 0.0) + seconds - before.get(pid, (name, 0.0))[1]
    return spent
