"""Find out how well this host can sandbox a command: run the real sandbox command line with attempts that must fail.

That a program is installed proves nothing. Some systems allow user namespaces but strip their capabilities; a container may have
an old bubblewrap with different options; a kernel may have landlock disabled. Every attempt is harmless, whatever its outcome.
"""

import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from clawsite.infra.errors import ClawError
from tools_app.exec.environment import build_environment, find_program
from tools_app.exec.sandbox import bwrap, cgroup, landlock
from tools_app.exec.sandbox.types import Sandbox, SandboxLaunch, SandboxLevel, SpawnRequest

TIMEOUT_SECONDS = 20.0  # the probe takes a few tens of milliseconds, but the machine may be busy starting up

# Each output line names an attempt that succeeded. The first two must succeed, the others must fail; every attempt is harmless
# if it succeeds.
PROBE_SCRIPT = r"""
exec 2>/dev/null
echo ran
(echo x >"$1/inside/made") && echo wrote-inside
(exec 3>>/usr/lib/os-release) && echo wrote-usr
(exec 3>>"$1/outside/secret") && echo wrote-outside
(read -r _ <"$1/outside/secret") && echo read-outside
(exec 3<>"/dev/tcp/127.0.0.1/$2") && echo connected
(kill -0 "$3") && echo signalled
unshare --user true && echo nested
exit 0
"""
REQUIRED = {"ran", "wrote-inside"}
ATTEMPT_LABELS: dict[str, str | Promise] = {
    "wrote-usr": _("a command could write to /usr"),
    "wrote-outside": _("a command could write outside its workspace"),
    "read-outside": _("a command could read outside its workspace"),
    "connected": _("a command could reach the network"),
    "signalled": _("a command could send signals to other processes"),
    "nested": _("a command could create namespaces"),
}
# Before landlock version 6 (Linux 6.12) signals can't be confined; that is reported as a weakness and does not rule out the level.
TOLERATED = {SandboxLevel.LANDLOCK: {"signalled"}}


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A requirement this host does not meet: a description for people, and the system's error."""

    label: str | Promise
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.label}: {self.detail}" if self.detail else str(self.label)


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The best level that was verified, why not a higher one, and the weaknesses of this level on this host."""

    level: SandboxLevel
    why_not_higher: tuple[Shortfall, ...] = ()
    weaknesses: tuple[Shortfall, ...] = ()


def probe() -> ProbeResult:
    """Try the levels from the best one down. Blocks for a few tens of milliseconds."""
    if sys.platform != "linux":
        return ProbeResult(
            SandboxLevel.NONE, (Shortfall(_("sandboxes require Linux; on this system, commands run with resource limits only")),)
        )
    reasons: list[Shortfall] = []
    for level in (SandboxLevel.BWRAP, SandboxLevel.LANDLOCK):
        missing = _find_missing(level)
        passed: set[str] = set()
        if not missing:
            try:
                passed = run_attempts(level)
                missing = _find_failures(level, passed)
            except (OSError, ClawError, ImportError, RuntimeError, subprocess.SubprocessError) as error:
                missing = [Shortfall(_("could not be started"), str(error))]
        if not missing:
            return ProbeResult(level, tuple(reasons), tuple(_find_weaknesses(passed)))
        reasons += [Shortfall(f"{level.label}: {shortfall.label}", shortfall.detail) for shortfall in missing]
    return ProbeResult(SandboxLevel.NONE, tuple(reasons), tuple(_find_weaknesses(set())))


def run_attempts(level: SandboxLevel) -> set[str]:
    """Run the attempts at a level, in temporary directories and against a listening port. Returns what succeeded."""
    with ExitStack() as opened:
        parent = Path(os.path.realpath(opened.enter_context(tempfile.TemporaryDirectory(prefix="clawsite-probe-"))))
        (parent / "inside").mkdir()
        (parent / "outside").mkdir()
        (parent / "outside" / "secret").write_text("not for commands\n")
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        sandbox = Sandbox(level, parent / "inside", "rw", network=False, hidden=(parent / "outside",))
        spawn = SpawnRequest("", parent / "inside", build_environment(sandbox.home), sandbox, TIMEOUT_SECONDS)
        arguments = (str(parent), str(listener.getsockname()[1]), str(os.getpid()))
        program = (find_program("bash") or "bash", "--norc", "--noprofile", "-c", PROBE_SCRIPT, "probe", *arguments)
        ours, theirs = socket.socketpair()
        opened.callback(ours.close)
        make: Callable[..., SandboxLaunch] = bwrap.prepare_launch if level == SandboxLevel.BWRAP else landlock.prepare_launch
        with theirs:
            launch = make(spawn, program, theirs.fileno(), opened)
            process = opened.enter_context(_start_probe(launch, spawn.cwd))
        return _read_attempts(process, ours)


def _start_probe(launch: SandboxLaunch, cwd: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603  # only our own probe script
        launch.argv,
        env=dict(launch.env),
        cwd=cwd,
        pass_fds=launch.descriptors,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _read_attempts(process: "subprocess.Popen[bytes]", ours: socket.socket) -> set[str]:
    try:
        if select.select([ours], [], [], TIMEOUT_SECONDS)[0] and ours.recv(16) == b"ready\n":
            ours.send(b"go\n")
        ours.close()  # a process still waiting for `go` exits
        output, errors = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
    passed = set(output.decode(errors="replace").split())
    if "ran" not in passed:
        raise OSError(errors.decode(errors="replace").strip()[:500] or f"it ended with code {process.returncode}")
    return passed


def _find_missing(level: SandboxLevel) -> list[Shortfall]:
    if level == SandboxLevel.LANDLOCK:
        return [] if landlock.landlock_version() else [Shortfall(_("not supported by this kernel, or disabled"))]
    return [Shortfall(_("not installed"), name) for name in ("bwrap", "bash") if not find_program(name)]


def _find_failures(level: SandboxLevel, passed: set[str]) -> list[Shortfall]:
    """Failures that rule out the level."""
    if missing := REQUIRED - passed:
        return [Shortfall(_("commands do not work in it"), ", ".join(sorted(missing)))]
    tolerated = TOLERATED.get(level, set()) if landlock.landlock_version() < landlock.SIGNALS_SINCE else set()
    return [Shortfall(ATTEMPT_LABELS.get(name, name)) for name in sorted(passed - REQUIRED - tolerated)]


def _find_weaknesses(passed: set[str]) -> list[Shortfall]:
    found = [Shortfall(ATTEMPT_LABELS[name]) for name in sorted(passed & ATTEMPT_LABELS.keys())]
    if not cgroup.can_limit_processes():
        found.append(
            Shortfall(_("the server runs as root and can’t create control groups, so the number of processes is not limited"))
        )
    return found
