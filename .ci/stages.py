"""Run lint and the tests in stages and print the time of each. `stages.py` runs all, `stages.py web postgres` only these.

Budgets are wall-clock seconds on an idle machine with two cores. A stage over its budget is marked, but does not fail.
"""

import os
import subprocess
import sys
import time

# More processes than cores, because tests spend half of their time waiting for sockets, leases and other processes.
WORKERS = os.environ.get("CLAWSITE_TEST_WORKERS", str(2 * (os.cpu_count() or 1)))
# worksteal gives each process consecutive tests, so that tests of one file share a running server.
PYTEST = [sys.executable, "-m", "pytest", "-n", WORKERS, "--dist", "worksteal", "--durations=25", "--durations-min=1"]
POSTGRES = {"CLAWSITE_TEST_DATABASE": "postgres"}

# name: (command, environment, budget)
STAGES: dict[str, tuple[list[str], dict[str, str], int]] = {
    "lint": (["make", "--no-print-directory", "lint"], {}, 60),
    "services": ([*PYTEST, "tests/unit", "tests/db", "tests/protocol", "tests/fuzz"], {}, 240),
    "web": ([*PYTEST, "tests/web"], {}, 560),
    "journeys": ([*PYTEST, "tests/journeys", "tests/faults"], {}, 300),
    "postgres": ([*PYTEST, "-m", "dialect", "tests"], POSTGRES, 340),
}


def main(names: list[str]) -> int:
    if unknown := [name for name in names if name not in STAGES]:
        print(f"unknown stage: {', '.join(unknown)}; choose from {', '.join(STAGES)}", file=sys.stderr)
        return 2
    # Tests start hundreds of processes. Without bytecode files, each would compile every module again.
    base = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times: dict[str, float] = {}
    code = 0
    for name in names or STAGES:
        command, environment, _budget = STAGES[name]
        print(f"stage {name}: {' '.join(command)}", flush=True)
        started = time.monotonic()
        code = subprocess.run(command, env=base | environment, check=False).returncode  # noqa: S603  # a fixed command
        times[name] = time.monotonic() - started
        if code:
            print(f"stage {name} failed", flush=True)
            break
    for name, seconds in times.items():
        budget = STAGES[name][2]
        print(f"stage {name}: {seconds:.0f}s (budget {budget}s){' OVER' if seconds > budget else ''}")
    print(f"all stages: {sum(times.values()):.0f}s")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
