"""Run lint and the tests in stages, and print how long each took: `stages.py` runs all, `stages.py web postgres` only these.

Budgets are wall-clock seconds on an idle machine with two cores. A stage above its budget is marked; only a failing one fails.
"""

import os
import subprocess
import sys
import time

# More processes than cores: half of the time a test waits for a socket, a lease or another process.
WORKERS = os.environ.get("CLAWSITE_TEST_WORKERS", str(2 * (os.cpu_count() or 1)))
# worksteal: each process takes files in a row, so that a running installation serves all tests of its file.
PYTEST = [sys.executable, "-m", "pytest", "-n", WORKERS, "--dist", "worksteal", "--durations=25", "--durations-min=1"]
POSTGRES = {"CLAWSITE_TEST_DATABASE": "postgres"}

# name: (command, environment, budget)
STAGES: dict[str, tuple[list[str], dict[str, str], int]] = {
    "lint": (["make", "--no-print-directory", "lint"], {}, 120),
    "services": ([*PYTEST, "tests/unit", "tests/db", "tests/protocol", "tests/fuzz"], {}, 300),
    "web": ([*PYTEST, "tests/web"], {}, 360),
    "journeys": ([*PYTEST, "tests/journeys", "tests/faults"], {}, 300),
    "postgres": ([*PYTEST, "-m", "dialect", "tests"], POSTGRES, 420),
}


def main(names: list[str]) -> int:
    if unknown := [name for name in names if name not in STAGES]:
        print(f"no such stage: {', '.join(unknown)}; there are {', '.join(STAGES)}", file=sys.stderr)
        return 2
    took: dict[str, float] = {}
    code = 0
    for name in names or STAGES:
        command, environment, _budget = STAGES[name]
        print(f"stage {name}: {' '.join(command)}", flush=True)
        began = time.monotonic()
        code = subprocess.run(command, env=os.environ | environment, check=False).returncode  # noqa: S603  ours
        took[name] = time.monotonic() - began
        if code:
            print(f"stage {name} failed", flush=True)
            break
    for name, seconds in took.items():
        budget = STAGES[name][2]
        print(f"stage {name}: {seconds:.0f}s (budget {budget}s){' OVER' if seconds > budget else ''}")
    print(f"all stages: {sum(took.values()):.0f}s")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
