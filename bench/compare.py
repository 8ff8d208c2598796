"""Measure several checkouts alternately, so that the machine's load affects all of them alike, and compare the results.

    python -m bench.compare /path/to/before .            two checkouts, 3 rounds each (about 3 minutes per round and checkout)
    python -m bench.compare --rounds 1 --only create,http_many /path/to/before .
    python -m bench.compare --out figures.json .         one checkout against its targets

The suites and the fake model are those of the checkout that runs this command. Each measured checkout runs in its own virtual
environment, `.venv`, if it has one. The ratio compares the last checkout with the first; above 1 is better. The targets are for
a quiet machine with 2 cores. The exit code is 1 if the last checkout misses a target.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.gateway.client import wait_until_up
from bench.gateway.figures import Result, leaf, median_of
from bench.gateway.options import Options
from bench.gateway.suites.catalog import SUITES
from bench.installation import PROJECT, TOKEN, WITHOUT_BYTECODE, Installation, manage_command
from bench.report import align_columns, disturbance

FIFTY, WATCHED = "sessions_50", "clients_300"


@dataclass(frozen=True)
class Target:
    suite: str
    path: tuple[str, ...]
    label: str
    limit: float
    at_least: bool = False

    def is_met(self, figure: float) -> bool:
        return figure >= self.limit if self.at_least else figure <= self.limit


TARGETS = (
    Target("coldstart", ("start_to_connect_s",), "start → first accepted connect, s", 1.2),
    Target("coldstart", ("memory_idle", "pss_mb"), "idle memory (PSS), MB", 155),
    Target("first_run", ("extra_ms",), "first run of a fresh process, extra time over the next, ms", 50),
    Target("overhead", ("one_session", "req_to_llm_ms", "p50"), "request → model, socket, p50, ms", 4),
    Target("http", ("stream_sequential", "req_to_llm_ms", "p50"), "request → model, /v1, p50, ms", 5),
    Target("throughput", (FIFTY, "runs_per_s"), "runs per second, 50 sessions", 400, at_least=True),
    Target("http_many", ("req_per_s",), "/v1 requests per second, 50 at a time", 200, at_least=True),
    Target("http_many", ("request_ms", "max"), "… slowest of them, ms", 1000),
    Target("fanout", (WATCHED, "agent", "lag_ms", "p95"), "300 watchers, agent events, p95, ms", 25),
    Target("fanout", (WATCHED, "chat", "lag_ms", "p95"), "300 watchers, chat events, p95, ms", 25),
    Target("create", ("sessions_per_s",), "sessions.create per second", 1000, at_least=True),
    Target("approvals", ("click → started", "p50"), "approval → command started, p50, ms", 50),
)
LEVELS = {"throughput": [50], "fanout": [300]}
SAMPLES = {"overhead": 100, "http": 100}
STANDALONE = ("coldstart", "first_run")  # these suites start the gateway themselves


def measure_round(checkout: Installation, opt: Options, suites: list[str]) -> dict[str, Result]:
    results = {name: asyncio.run(SUITES[name](opt)) for name in suites if name in STANDALONE}
    if rest := [name for name in suites if name in SUITES and name not in STANDALONE]:
        opt.pids = checkout.launcher.start()
        try:
            asyncio.run(wait_until_up(opt))
            time.sleep(opt.settle)  # until everything is loaded and the first prepare has ended
            for name in rest:
                opt.levels, opt.n = LEVELS.get(name), SAMPLES.get(name)
                results[name] = asyncio.run(SUITES[name](opt))
        finally:
            checkout.launcher.stop()
            opt.pids, opt.levels, opt.n = [], None, None
    if "approvals" in suites:
        results["approvals"] = measure_approvals(checkout)
    return results


def measure_approvals(checkout: Installation) -> Result:
    """Run the checkout's own benchmark, because it uses its models."""
    out = checkout.home / "approvals.json"
    python, _manage = manage_command(checkout.project)
    env = {name: value for name, value in checkout.env.items() if not name.startswith(("CLAWSITE_", WITHOUT_BYTECODE))}
    command = [python, "-m", "bench.approvals_bench", "--rounds", "20", "--out", str(out)]
    done = subprocess.run(command, cwd=checkout.project, env=env, stdout=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 1):  # 1: a target was missed
        raise RuntimeError(f"approvals_bench ended with {done.returncode} in {checkout.project}")
    result: Result = json.loads(out.read_text())
    return result


def cpu_per_operation(results: list[Result], target: Target) -> float | None:
    """Return milliseconds of CPU per run, request or session."""
    part = median_of(results)
    if "gateway_cpu" not in part:
        part = leaf(part, target.path[:1])
    if not isinstance(part, dict) or "gateway_cpu" not in part:
        return None
    rate = part.get("runs_per_s") or part.get("req_per_s") or part.get("sessions_per_s")
    if not rate and part.get("ok"):
        rate = part["ok"] / part["seconds"]
    return float(part["gateway_cpu"]) / float(rate) * 1000 if rate else None


def table(projects: list[Path], results: dict[Path, dict[str, list[Result]]]) -> tuple[str, bool]:
    lines = [("what", "target", *(project.name or str(project) for project in projects), "ratio", "")]
    met = True
    for target in TARGETS:
        if target.suite not in results[projects[0]]:
            continue
        figures = [median_of([leaf(one, target.path) for one in results[project][target.suite]]) for project in projects]
        ratio = _ratio(figures[0], figures[-1], target.at_least)
        sign = "≥" if target.at_least else "≤"
        is_met = isinstance(figures[-1], int | float) and target.is_met(figures[-1])
        met = met and is_met
        shown = ["not measured" if figure is None else f"{figure:g}" for figure in figures]
        lines.append((target.label, f"{sign} {target.limit:g}", *shown, ratio, "pass" if is_met else "FAIL"))
        cpu = [cpu_per_operation(results[project][target.suite], target) for project in projects]
        if all(cpu) and not target.label.startswith("…"):
            shown = [f"{each:.2f}" for each in cpu if each]
            lines.append(("  … CPU of all processes per operation, ms", "", *shown, _ratio(cpu[0], cpu[-1], False), ""))
    return align_columns(lines), met


def _ratio(first: float | None, last: float | None, at_least: bool) -> str:
    if not isinstance(first, int | float) or not isinstance(last, int | float) or first <= 0 or last <= 0:
        return ""
    return f"{last / first if at_least else first / last:.2f}×"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    suites = list(dict.fromkeys(target.suite for target in TARGETS))
    parser.add_argument("checkout", nargs="*", type=Path, default=[PROJECT])
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the table shows medians (default 3)")
    parser.add_argument("--only", type=lambda text: text.split(","), default=suites, help=f"suites: {','.join(suites)}")
    parser.add_argument("--settle", type=float, default=8, help="seconds until a started gateway is idle (default 8)")
    parser.add_argument("--out", type=Path, help="write all results as JSON")
    options = parser.parse_args()
    if unknown := set(options.only) - set(suites):
        parser.error(f"unknown suites: {', '.join(sorted(unknown))}")
    return options


def main() -> int:
    options = parse_arguments()
    projects = [checkout.resolve() for checkout in options.checkout]
    results: dict[Path, dict[str, list[Result]]] = {project: {} for project in projects}
    started = time.time()
    with ExitStack() as stack:
        measured: dict[Path, tuple[Installation, Options]] = {}
        for project in projects:
            checkout = Installation(project=project)
            stack.callback(checkout.close)
            opt = Options(urls=checkout.urls, token=TOKEN, llm=checkout.llm, launcher=checkout.launcher, settle=options.settle)
            opt.helper_pids = checkout.open()
            checkout.launcher.start()  # once before measuring, so that bytecode and the disk cache are there
            asyncio.run(wait_until_up(opt))
            checkout.launcher.stop()
            measured[project] = checkout, opt
        for turn in range(options.rounds):
            for project, (checkout, opt) in measured.items():
                for name, result in measure_round(checkout, opt, options.only).items():
                    results[project].setdefault(name, []).append(result)
                load = disturbance([part[-1] for part in results[project].values()])
                print(f"[{time.time() - started:5.0f} s] round {turn + 1}, {project}: {load}", file=sys.stderr, flush=True)
    text, met = table(projects, results)
    print(text)
    if options.out:
        options.out.write_text(json.dumps({str(project): parts for project, parts in results.items()}, indent=1))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
