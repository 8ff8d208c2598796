"""What is asked of a command's process and what is told about it: pure values, no system calls, no framework."""

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
    """How well a command is shut in. They are in order: a policy names the least one it accepts."""

    NONE = 0
    LANDLOCK = 1
    BWRAP = 2

    @property
    def word(self) -> str:
        return ("none", "landlock", "bubblewrap")[self]


class SandboxUnavailable(Unavailable):
    """This host cannot shut a command in as well as it was asked for. Nothing was run."""


class SpawnFailed(Unavailable):
    """The command was not started; the message says why. Not one byte of its line was read by a shell."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What one command gets to see. Nothing else of the host is there, at the level it names."""

    level: SandboxLevel
    workspace: Path  # mounted at its own path, so that what the file tools call a file, a command calls the same
    access: Access
    network: bool  # the host's network, with everything that listens on 127.0.0.1; off: none at all
    hidden: tuple[Path, ...]  # never seen, even if it lies inside what is shown: the state directory, the database
    private_home: Path | None = None  # a directory that outlives the command; None: an empty one that goes with it
    unwritable: tuple[Path, ...] = ()  # never written, even if it lies inside the workspace: the project's own code

    @property
    def home(self) -> Path:
        """What HOME should say."""
        return self.private_home or Path("/tmp")  # noqa: S108  # the command's own, not the host's


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Bounds on what one command can use up. Of processes and memory see `sandbox_probe` for where they hold."""

    processes: int = 512
    open_files: int = 1024
    file_bytes: int = 256 * MIB
    temporary_bytes: int = 256 * MIB  # /tmp and /dev/shm, each; they live in memory
    memory_bytes: int = 4096 * MIB  # of data in each process; in a control group of all together
    cpu_s: int = 3600  # of each process
    disk_reserve_bytes: int = 256 * MIB  # a command is ended when the disk of its workspace has less left


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """One command, exactly. `line` is read by bash as it is; `argv`, where given, is run without any shell instead."""

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
    """What the system is told to start. It has one end of `talk` and waits for the word to go on."""

    argv: list[str]
    env: Mapping[str, str]
    descriptors: tuple[int, ...]  # passed on; everything else is closed


@dataclass(frozen=True, slots=True)
class OutputChunk:
    stream: OutputStream  # on a terminal all is stdout
    data: bytes


EndedBy = Literal["itself", "timeout", "kill", "disk"]


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How it came out. A command that somebody ended has no exit code.

    Of one that a signal ended by itself the shell's code is all we know, 128 + the signal, and `signal` is read from it.
    """

    exit_code: int | None
    signal: str | None  # SIGKILL, SIGSEGV …
    by: EndedBy
    duration_ms: int

    @property
    def timed_out(self) -> bool:
        return self.by == "timeout"
