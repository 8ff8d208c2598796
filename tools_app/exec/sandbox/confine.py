"""Confine a command with kernel features available to any process: `python -I -S confine.py ORDER_FD PROGRAM ARGUMENT…`.

This process is the guard of `clawsite.infra.process.guard`. Its child applies the limits, the landlock rules and the system call
filter to itself, writes `ready`, waits for `go`, and executes the program. If a step fails, the program does not run, and stderr
says why. Standard library only, because imports slow down every command below the bubblewrap level.
"""

import ctypes
import json
import os
import resource
import struct
import sys
from typing import Any, NoReturn

NOT_STARTED_CODE = 125

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_PR_CAPBSET_DROP, _PR_SET_SECUREBITS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 24, 28, 47, 4
_NO_ROOT = 0b101111  # securebits: UID 0 grants no capabilities, and KEEP_CAPS is off; locked
_CAPABILITY_VERSION_3 = 0x20080522
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _CAPSET = (
    444,
    445,
    446,
    {"x86_64": 126, "aarch64": 91},
)  # landlock's numbers are the same on all architectures
_PATH_BENEATH = 1
_TIOCSCTTY = 0x540E if sys.platform == "linux" else 0x20007461
_CAPABILITIES = 64


def exec_confined(order: dict[str, Any], argv: list[str]) -> NoReturn:
    if order["terminal"]:
        import fcntl

        fcntl.ioctl(0, _TIOCSCTTY, 0)  # the guard has given us our own session
    _set_limits(order["limits"])
    if order["landlock"]:
        _drop_capabilities()
        _apply_landlock(order["landlock"])
    talk = order["talk"]
    os.write(talk, b"ready\n")
    if os.read(talk, 3) != b"go\n":
        os._exit(NOT_STARTED_CODE)  # the worker is gone, or has canceled the start
    os.close(talk)
    if order["seccomp"] is not None:
        _apply_seccomp(_read_all(order["seccomp"]))
    os.execv(argv[0], argv)  # noqa: S606  # the approved command, by its full path


def _set_limits(limits: dict[str, int]) -> None:
    if sys.platform == "linux":
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # when memory runs out, commands are killed before services
    for name, value in limits.items():
        which = getattr(resource, name)
        hard = resource.getrlimit(which)[1]
        if name == "RLIMIT_NPROC":
            value += _count_own_tasks()  # outside a user namespace the kernel counts all tasks of the account
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


def _count_own_tasks() -> int:
    count = 0
    for entry in os.scandir("/proc") if os.path.isdir("/proc/self") else ():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{entry.name}/task"))
        except OSError:  # the process has ended
            continue
    return count


def _drop_capabilities() -> None:
    """Drop all capabilities for good. A server that runs as root has them; its commands must not."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if os.geteuid() != 0:
        return
    _prctl(_PR_SET_SECUREBITS, _NO_ROOT)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in range(_CAPABILITIES):
        if ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # past the last capability
    header, none = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24)
    _syscall(_CAPSET[os.uname().machine], header, none)


def _apply_landlock(ruleset_spec: dict[str, Any]) -> None:
    """Apply a ruleset. `files`, `network` and `scoped` are denied unless a rule allows them; `rules` are (path, rights) pairs."""
    attributes = struct.pack("=QQQ", ruleset_spec["files"], ruleset_spec["network"], ruleset_spec["scoped"])[: ruleset_spec["size"]]
    ruleset = _syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    for path, rights in ruleset_spec["rules"]:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        _syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
        os.close(descriptor)
    _syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _apply_seccomp(program: bytes) -> None:
    code = ctypes.create_string_buffer(program)
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, described)


def _read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def _prctl(*arguments: int | bytes) -> None:
    padded = [argument if isinstance(argument, bytes) else ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:5]]
    if ctypes.CDLL(None, use_errno=True).prctl(*padded) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {arguments[0]!r}")


def _syscall(number: int, *arguments: int | bytes) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    padded = [argument if isinstance(argument, bytes) else ctypes.c_long(argument) for argument in arguments]
    result = int(library.syscall(ctypes.c_long(number), *padded))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}")
    return result


def main(order: dict[str, Any], argv: list[str]) -> int:
    sys.path.append(order["guard"])  # last, so that nothing there shadows the standard library
    import guard  # type: ignore[import-not-found]  # clawsite.infra.process.guard, without its parent packages

    def run_confined(argv: list[str]) -> None:
        try:
            exec_confined(order, argv)
        except Exception as error:
            os.write(2, f"not started: {error}\n".encode(errors="replace"))
            os._exit(NOT_STARTED_CODE)

    # No grace period: the whole tree must be gone within a second after the worker. Commands under bubblewrap get none either.
    return int(guard.main(order["parent"], argv, grace=0, become=run_confined))


if __name__ == "__main__":
    sys.exit(main(json.loads(_read_all(int(sys.argv[1]))), sys.argv[2:]))
