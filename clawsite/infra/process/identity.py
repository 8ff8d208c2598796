"""Uniquely identify a process on a host, so that others can tell whether it is still running."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """PIDs are reused, but PID, start time and boot ID together are unique. Fields are empty if the system doesn't provide them."""

    host: str
    boot_id: str
    pid: int
    started: str


def own_identity() -> ProcessIdentity:
    return identity_of(os.getpid())


def identity_of(pid: int) -> ProcessIdentity:
    """Return the identity of a running process on this host."""
    return ProcessIdentity(host=socket.gethostname(), boot_id=_read_boot_id(), pid=pid, started=_read_start_time(pid))


def is_of_this_boot(process: ProcessIdentity) -> bool:
    """Whether the process belongs to this host and boot, so that its PID is meaningful here."""
    return bool(process.boot_id) and (process.host, process.boot_id) == (socket.gethostname(), _read_boot_id())


def is_alive(process: ProcessIdentity) -> bool:
    """Whether exactly this process is still running on this host."""
    return _read_start_time(process.pid) == process.started


def _read_boot_id() -> str:
    """Include the PID namespace: containers on one host may share everything else."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""  # not Linux: dead workers are only detected by their leases


def _read_start_time(pid: int) -> str:
    """Return the start time in clock ticks since boot, from /proc, or "" if the process doesn't exist or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
