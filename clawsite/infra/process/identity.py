"""Naming one process of one host for good, so that it can be known to be gone."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Pids are used again; pid, start time and boot together are not. Empty where the system does not tell."""

    host: str
    boot_id: str
    pid: int
    started: str


def own_identity() -> ProcessIdentity:
    return identity_of(os.getpid())


def identity_of(pid: int) -> ProcessIdentity:
    """Of a process of this host that is there now."""
    return ProcessIdentity(host=socket.gethostname(), boot_id=_read_boot_id(), pid=pid, started=_read_start_time(pid))


def is_of_this_boot(process: ProcessIdentity) -> bool:
    """Whether its pid means something here."""
    return bool(process.boot_id) and (process.host, process.boot_id) == (socket.gethostname(), _read_boot_id())


def is_alive(process: ProcessIdentity) -> bool:
    """Whether that very process of this host still runs."""
    return _read_start_time(process.pid) == process.started


def _read_boot_id() -> str:
    """With the namespace of the pids: containers of one host may share everything else."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""  # not Linux: dead workers are then found by their leases alone


def _read_start_time(pid: int) -> str:
    """Clock ticks since boot, from /proc; empty when the process is not there, or a zombie that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]
