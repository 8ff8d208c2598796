"""Measures the pages in a real browser: how soon they are there, and what a streamed answer costs them.

    python -m bench.browser                          everything, medians of 3 (about 8 minutes)
    python -m bench.browser streaming --repeat 1     one of loading, streaming, switching, memory
    python -m bench.browser --out browser.json       where the full result goes
    python -m bench.browser streaming --repeat 1 --profile stream.cpuprofile

A throw-away installation on 127.0.0.1 (server, worker, a model that writes markdown at a fixed pace) and Debian's Chromium, desktop
size. Exit code 1 when a promise is not kept. On a busy machine put `chrt -r 1` before it.
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
    parser.add_argument("--profile", default="", help="write a CPU profile of each stream here, and print what is in the last one")
    given = parser.parse_args()
    if unknown := [name for name in given.suite if name not in SUITES]:
        parser.error(f"there is no suite {', '.join(unknown)}; choose from {', '.join(SUITES)}")
    return given


def measure(given: argparse.Namespace) -> tuple[dict[str, list[Result]], str]:
    began = time.time()
    results: dict[str, list[Result]] = {}
    with running_site(program="bench.browser.model") as site, running_browser() as browser:
        user = site.account("bench", "User")
        sessions = {messages: words.session_of(user, f"s{messages}", messages) for messages in (200, 201, 5000)}
        bench = Bench(browser, site, user, sessions, given.seconds, given.samples, given.profile)
        options = Options(pids=site.pids, helper_pids=site.helper_pids)
        for name in [name for name in SUITES if name in (given.suite or SUITES)]:
            for turn in range(1, given.repeat + 1):
                with Meter(options) as meter:
                    result = SUITES[name](bench)
                # The browser is a child of ours, like the model: what is left is others'.
                results.setdefault(name, []).append({**result, "load_average": meter.result["load_average"]})
                told = f"{name} {turn} of {given.repeat}: load average {meter.result['load_average']}"
                print(f"[{time.time() - began:5.0f} s] {told}", file=sys.stderr, flush=True)
        return results, browser.version


def table(results: dict[str, list[Result]]) -> tuple[str, list[str]]:
    """-> (the table, what was not kept)"""
    lines, failed = [("what", "promise", "figure", "")], []
    for promise in PROMISES:
        if promise.suite not in results:
            continue
        figure = promise.figure(results[promise.suite])
        verdict = promise.verdict(figure, "sqlite")
        if verdict is False:
            failed.append(promise.words)
        limit = "" if promise.limit is None else f"≤ {promise.limit:g} {promise.unit}"
        lines.append((promise.words, limit, f"{figure} {promise.unit}", {None: "", True: "pass", False: "FAIL"}[verdict]))
    return report.align_columns(lines), failed


def main() -> int:
    given = parse_arguments()
    results, browser = measure(given)
    shown, failed = table(results)
    print(f"\nChromium {browser}, medians of {given.repeat}\n{shown}")
    if given.out:
        about = {
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "browser": browser,
            "repeat": given.repeat,
            "machine": {"cores": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        }
        given.out.write_text(json.dumps({**about, "results": results}, indent=1))
        print(f"\nwritten to {given.out}")
    if failed:
        print(f"\nnot kept: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
