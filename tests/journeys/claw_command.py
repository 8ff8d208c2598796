"""Run `claw` as a process with arguments and an environment, and return its output and exit code."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent.parent
TIMEOUT_SECONDS = 60


@dataclass
class ClawResult:
    code: int
    out: str
    err: str


def clean_environment(**more: str) -> dict[str, str]:
    """Return the environment without Clawsite's settings, except for the given ones."""
    ours = ("CLAWSITE_", "DATABASE_URL", "REDIS_URL", "DJANGO_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return inherited | {"PYTHONUNBUFFERED": "1", **more}


def start_claw(*arguments: str, env: Mapping[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "clawsite.cli.main", *arguments],
        cwd=PROJECT,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run_claw(*arguments: str, env: Mapping[str, str], stdin: str = "") -> ClawResult:
    done = subprocess.run(
        [sys.executable, "-m", "clawsite.cli.main", *arguments],
        cwd=PROJECT,
        env=dict(env),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    return ClawResult(done.returncode, done.stdout, done.stderr)
