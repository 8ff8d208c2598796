"""Data types that describe a command's sandbox, start and end. No system calls, no framework code."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Literal

from clawsite.infra.errors import Unavailable

Access = Literal["none", "ro", "rw"]
OutputStream = Literal["stdout", "stderr"]

MIB = 1024 * 1024


class SandboxLevel(IntEnum):
    """How well a command is confined, in ascending order: a policy names the minimum it accepts."""

    NONE = 0
    LANDLOCK = 1
    BWRAP = 2

    @property
    def label(self) -> str:
        return ("none", "landlock", "bubblewrap")[self]


class SandboxUnavailable(Unavailable):
    """This host can't confine a command as required. Nothing was run."""


class SpawnFailed(Unavailable):
    """The command was not started; the message says why. No shell has read any of its line."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What one command can see of the host, enforced as far as the level allows."""

    level: SandboxLevel
    workspace: Path  # mounted at its own path, so that commands and file tools use the same paths
    access: Access
    network: bool  # the host's network, including everything listening on 127.0.0.1; False means no network at all
    hidden: tuple[Path, ...]  # never visible, even inside visible directories: the state directory, the database
    private_home: Path | None = None  # a directory that outlives the command; None for an empty one that is removed with it
    unwritable: tuple[Path, ...] = ()  # never writable, even inside the workspace: the project's own code

    @property
    def home(self) -> Path:
        """Value for HOME."""
        return self.private_home or Path("/tmp")  # noqa: S108  # the command's own /tmp, not the host's


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Resource limits of one command. tools_app.exec.sandbox.probe reports those that the host can't enforce."""

    processes: int = 512
    open_files: int = 1024
    file_bytes: int = 256 * MIB
    temporary_bytes: int = 256 * MIB  # for each of /tmp and /dev/shm, which are in memory
    memory_bytes: int = 4096 * MIB  # data of each process; with a control group, the total of all processes
    cpu_s: int = 3600  # per process
    disk_reserve_bytes: int = 256 * MIB  # the command is killed if its workspace's disk has less free space


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """One command to start. bash gets `line` unchanged; `argv`, if given, runs instead, without a shell."""

    line: str
    cwd: Path
    env: Mapping[str, str]
    sandbox: Sandbox
    timeout_s: float
    argv: tuple[str, ...] | None = None
    pty: bool = False
    limits: ProcessLimits = field(default_factory=ProcessLimits)


@dataclass(frozen=True, slots=True)
class SandboxLaunch:
    """The process to start. It holds one end of `talk` and waits for `go`."""

    argv: list[str]
    env: Mapping[str, str]
    descriptors: tuple[int, ...]  # inherited; everything else is closed


@dataclass(frozen=True, slots=True)
class OutputChunk:
    stream: OutputStream  # on a terminal, everything is stdout
    data: bytes


EndedBy = Literal["itself", "timeout", "kill", "disk"]


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How a command ended. If we killed it, there is no exit code.

    If it died from a signal, only the shell's exit code is known, 128 + the signal number; `signal` is derived from it.
    """

    exit_code: int | None
    signal: str | None  # SIGKILL, SIGSEGV …
    by: EndedBy
    duration_ms: int

    @property
    def timed_out(self) -> bool:
        return self.by == "timeout"
