"""The system calls a command may not make, as a BPF program for the kernel. Everything else is allowed.

This is a blocklist, because compilers, interpreters and databases use most of the existing calls. It lists calls that reach
beyond the sandbox, have a history of kernel vulnerabilities, or create namespaces in which the caller is root again.
Programs for other instruction sets of the same machine (such as 32-bit) are killed, because their call numbers differ.
"""

import tempfile
from functools import cache
from typing import Any

DENIED_SYSCALLS = (
    # other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
    # namespaces and mounts
    "unshare", "setns", "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen",
    "fsconfig", "fsmount", "fspick", "mount_setattr", "open_by_handle_at",
    # large, fast-changing parts of the kernel that ordinary programs don't need
    "bpf", "io_uring_setup", "io_uring_enter", "io_uring_register", "perf_event_open", "userfaultfd", "add_key",
    "request_key", "keyctl", "fanotify_init", "lookup_dcookie", "modify_ldt", "vm86", "vm86old", "nfsservctl",
    # the machine itself
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "create_module", "reboot", "swapon",
    "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "iopl", "ioperm", "settimeofday", "clock_settime", "clock_adjtime",
    "adjtimex", "stime", "sethostname", "setdomainname", "vhangup", "migrate_pages", "move_pages", "mbind", "set_mempolicy",
)  # fmt: skip

_NEW_NAMESPACES = (
    0x00000080 | 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
)  # CLONE_NEW*
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # these requests inject input into a terminal
_LOW_HALF = 0xFFFFFFFF  # the kernel reads only 32 bits of these arguments, so the filter must too: CVE-2019-10063
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
LAST_FAMILY = 64  # the kernel has 46


@cache
def build_filter(*, internet: bool = True, unix: bool = True, truncate: bool = True) -> bytes:
    """Build the filter in the format the kernel expects.

    Address families other than internet and local ones are always denied (vsock reaches the hypervisor from any namespace).
    `internet`, `unix`: whether such sockets can be created, for levels that can't hide a network or a socket file.
    """
    import pyseccomp  # imported late: it looks for libseccomp, which a host without sandboxes may lack

    def deny(error: int, name: str, *arguments: Any) -> None:
        try:
            rules.add_rule(pyseccomp.ERRNO(error), name, *arguments)
        except OSError:
            if pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name) >= 0:
                raise  # the call exists on this machine, so failing to deny it is an error

    def low_half(argument: int, value: int) -> Any:
        return pyseccomp.Arg(argument, pyseccomp.MASKED_EQ, _LOW_HALF, value)

    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in DENIED_SYSCALLS if truncate else (*DENIED_SYSCALLS, "truncate", "truncate64"):
        deny(_EPERM, name)
    for flag in (1 << bit for bit in range(32) if _NEW_NAMESPACES >> bit & 1):
        deny(_EPERM, "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, flag, flag))
    deny(_ENOSYS, "clone3")  # clone3's flags are in memory, invisible to a filter; libraries fall back to clone
    for request in (_TIOCSTI, _TIOCLINUX):
        deny(_EPERM, "ioctl", low_half(1, request))
    allowed = {_AF_UNIX} if unix else set()
    allowed |= {_AF_INET, _AF_INET6, _AF_NETLINK} if internet else set()
    for family in set(range(LAST_FAMILY)) - allowed:
        deny(_EAFNOSUPPORT, "socket", low_half(0, family))
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
