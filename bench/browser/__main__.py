"""Measure the pages in a real browser: how fast they load, and what a streamed answer costs.

    python -m bench.browser                          everything, medians of 3 (about 8 minutes)
    python -m bench.browser streaming --repeat 1     one of: loading, streaming, switching, memory
    python -m bench.browser --out browser.json       write all results
    python -m bench.browser streaming --repeat 1 --profile stream.cpuprofile

Uses a temporary server on 127.0.0.1 with a fake model that writes Markdown at a fixed pace, and Debian's Chromium at desktop size.
The exit code is 1 if a target is missed. On a busy machine, raise the priority with `chrt -r 1`.
"""

import argparse
import datetime as dt
import json
import os
import platform
import sys
import time
from pathlib import Path

from bench import report
from bench.browser import sample_text
from bench.browser.promises import PROMISES
from bench.browser.suites import SUITES, Bench
from bench.gateway.figures import Result
from bench.gateway.options import Options
from bench.gateway.processes import Meter
from bench.site import running_browser, running_site


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.browser", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", nargs="*", help=f"{', '.join(SUITES)} (default: all)")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions of each; the table shows medians (default 3)")
    parser.add_argument("--samples", type=int, default=10, help="visits and switches in each repetition (default 10)")
    parser.add_argument("--seconds", type=float, default=20, help="length of each streamed answer (default 20)")
    parser.add_argument("--out", type=Path, help="write everything measured as JSON")
    parser.add_argument("--profile", default="", help="write a CPU profile of each stream to this file, and print a summary")
    options = parser.parse_args()
    if unknown := [name for name in options.suite if name not in SUITES]:
        parser.error(f"unknown suite: {', '.join(unknown)}; choose from {', '.join(SUITES)}")
    return options


def measure(options: argparse.Namespace) -> tuple[dict[str, list[Result]], str]:
    started = time.time()
    results: dict[str, list[Result]] = {}
    with running_site(program="bench.browser.model") as site, running_browser() as browser:
        user = site.account("bench", "User")
        sessions = {messages: sample_text.create_session(user, f"s{messages}", messages) for messages in (200, 201, 5000)}
        bench = Bench(browser, site, user, sessions, options.seconds, options.samples, options.profile)
        processes = Options(pids=site.pids, helper_pids=site.helper_pids)
        for name in [name for name in SUITES if name in (options.suite or SUITES)]:
            for turn in range(1, options.repeat + 1):
                with Meter(processes) as meter:
                    result = SUITES[name](bench)
                # The browser is a child of this process, like the model; only the load average shows other programs.
                results.setdefault(name, []).append({**result, "load_average": meter.result["load_average"]})
                line = f"{name} {turn} of {options.repeat}: load average {meter.result['load_average']}"
                print(f"[{time.time() - started:5.0f} s] {line}", file=sys.stderr, flush=True)
        return results, browser.version


def table(results: dict[str, list[Result]]) -> tuple[str, list[str]]:
    """Return the table and the missed targets."""
    lines, failed = [("measurement", "target", "result", "")], []
    for promise in PROMISES:
        if promise.suite not in results:
            continue
        figure = promise.figure(results[promise.suite])
        verdict = promise.verdict(figure, "sqlite")
        if verdict is False:
            failed.append(promise.label)
        limit = "" if promise.limit is None else f"≤ {promise.limit:g} {promise.unit}"
        lines.append((promise.label, limit, f"{figure} {promise.unit}", {None: "", True: "pass", False: "FAIL"}[verdict]))
    return report.align_columns(lines), failed


def main() -> int:
    options = parse_arguments()
    results, browser = measure(options)
    shown, failed = table(results)
    print(f"\nChromium {browser}, medians of {options.repeat}\n{shown}")
    if options.out:
        metadata = {
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "browser": browser,
            "repeat": options.repeat,
            "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        }
        options.out.write_text(json.dumps({**metadata, "results": results}, indent=1))
        print(f"\nwritten to {options.out}")
    if failed:
        print(f"\nnot kept: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
