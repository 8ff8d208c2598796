"""Values that describe a command's sandbox, start and end. No system calls, no framework."""

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
    """What one command can see. At the given level, nothing else of the host exists for it."""

    level: SandboxLevel
    workspace: Path  # mounted at its own path, so that commands and file tools use the same paths
    access: Access
    network: bool  # the host's network, including everything listening on 127.0.0.1; off means none at all
    hidden: tuple[Path, ...]  # never visible, even inside visible directories: the state directory, the database
    private_home: Path | None = None  # a directory that outlives the command; None for an empty one that is removed with it
    unwritable: tuple[Path, ...] = ()  # never writable, even inside the workspace: the project's own code

    @property
    def home(self) -> Path:
        """Value for HOME."""
        return self.private_home or Path("/tmp")  # noqa: S108  # the command's own, not the host's


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Resource limits of one command. tools_app.exec.sandbox.probe reports where those for processes and memory hold."""

    processes: int = 512
    open_files: int = 1024
    file_bytes: int = 256 * MIB
    temporary_bytes: int = 256 * MIB  # /tmp and /dev/shm, each; in memory
    memory_bytes: int = 4096 * MIB  # data of each process; in a control group, of all together
    cpu_s: int = 3600  # of each process
    disk_reserve_bytes: int = 256 * MIB  # a command is ended if the disk of its workspace has less left


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """One command, exactly. bash reads `line` unchanged; `argv`, if given, runs without a shell instead."""

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
    """How a command ended. One that was killed by us has no exit code.

    For one that died from a signal, only the shell's code is known, 128 + the signal number; `signal` is derived from it.
    """

    exit_code: int | None
    signal: str | None  # SIGKILL, SIGSEGV …
    by: EndedBy
    duration_ms: int

    @property
    def timed_out(self) -> bool:
        return self.by == "timeout"
