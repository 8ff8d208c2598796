"""Run one suite against any gateway that supports OpenClaw's protocol (WebSocket, protocol 4), with the fake model.

    python -m bench.gateway SUITE [--url ws://127.0.0.1:8765/ws] [--token T] [--llm http://127.0.0.1:18080] [--repeat 3]

The gateway must use tests/harness/fake_model.py as its only model. Pass its processes with --pid (for memory and CPU), or let the
suite start it with --start "command" (coldstart, crash, approval). Prints the result as JSON, and each repetition to stderr.
"""

import argparse
import asyncio
import json
import shlex
import sys
from dataclasses import fields

from bench.gateway.figures import median_of
from bench.gateway.options import Options
from bench.gateway.suites.catalog import SUITES
from bench.installation import CommandLauncher


def _parse_list(text: str) -> list[str]:
    return text.split(",")


def _parse_numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench.gateway", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", choices=list(SUITES))
    parser.add_argument(
        "--url", dest="urls", type=_parse_list, help="one or more, separated by commas; connections alternate between them"
    )
    parser.add_argument("--token")
    parser.add_argument("--llm", help="address of the fake model")
    parser.add_argument("--protocol", type=int)
    parser.add_argument("--client-id")
    parser.add_argument("--client-mode")
    parser.add_argument("--caps", type=_parse_list)
    parser.add_argument("--device", action="store_true", default=None, help="send a signed ed25519 device identity")
    parser.add_argument("--agent")
    parser.add_argument("--method", choices=["chat.send", "agent"])
    parser.add_argument("--http-model")
    parser.add_argument("--pid", dest="pids", type=_parse_numbers, help="the gateway's processes, for memory and CPU")
    parser.add_argument("--start", help="command that starts the gateway (coldstart, crash, approval)")
    parser.add_argument("--start-log", default="/tmp/gateway_bench_start.log")
    parser.add_argument("--settle", type=float, help="coldstart: seconds before idle memory is read")
    parser.add_argument("--watch", type=float, help="crash, approval: seconds to watch after the restart")
    parser.add_argument("-n", type=int, help="samples (each suite has a default)")
    parser.add_argument("--levels", type=_parse_numbers, help="e.g. 1,10,50")
    parser.add_argument("--gap", type=float, help="overhead: pause between runs")
    parser.add_argument("--delay-ms", type=float, help="fanout: the model's pause between deltas")
    parser.add_argument("--own-connection", action="store_true", default=None, help="throughput: one connection per session")
    parser.add_argument("--subscribe", action="store_true", default=None, help="fanout: sessions.messages.subscribe first")
    parser.add_argument("--requests", type=int, help="http: number of concurrent requests")
    parser.add_argument("--history", type=int, help="methods: number of messages in the long session")
    parser.add_argument("--fault-timeout", type=float, help="faults: timeout of a run in seconds")
    parser.add_argument("--timeout", type=float)
    parser.add_argument("--repeat", type=int, default=1, help="repeat and print medians")
    return parser.parse_args()


def main() -> None:
    options = parse_arguments()
    names = {field.name for field in fields(Options)}
    opt = Options(**{name: value for name, value in vars(options).items() if name in names and value is not None})
    if options.start:
        opt.launcher = CommandLauncher(shlex.split(options.start), log=options.start_log)
    results = []
    for _ in range(options.repeat):
        results.append(asyncio.run(SUITES[options.suite](opt)))
        print(json.dumps(results[-1]), file=sys.stderr)
    result = median_of(results) if options.repeat > 1 else results[0]
    print(json.dumps({"suite": options.suite, "urls": opt.urls, "repeat": options.repeat, "result": result}, indent=1))


if __name__ == "__main__":
    main()
