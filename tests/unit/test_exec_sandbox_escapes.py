"""Attempts to escape the sandbox, each a real command.

None of them could harm the machine if it succeeded: files and mounts belong to the test, and system files are only opened.
"""

import os
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from tests.harness.sandbox import COUNT_FORKS, ISOLATED_LEVELS, Shell
from tools_app.exec.sandbox import bwrap, paths
from tools_app.exec.sandbox.types import MIB, ProcessLimits, SandboxLevel, SandboxUnavailable

levels = pytest.mark.parametrize("level", ISOLATED_LEVELS, ids=lambda level: level.label)


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


@pytest.fixture
def listener():
    """A server on 127.0.0.1 that records its clients."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        came = []

        def serve() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                came.append(address)
                connection.sendall(b"welcome\n")
                connection.close()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], came
        server.shutdown(socket.SHUT_RDWR)


@levels
async def test_files_outside_the_workspace_cannot_be_written(shell, level):
    result = await shell.run(
        level, f"echo x > {shell.outside}/new; echo x >> {shell.secret}; rm -f {shell.secret}; mkdir {shell.outside}/d"
    )
    assert os.listdir(shell.outside) == ["secret"]
    assert shell.secret.read_text() == "a-secret-outside"
    assert result.ended.exit_code != 0


@levels
async def test_system_files_cannot_be_opened_for_writing(shell, level):
    result = await shell.run(level, "(exec 3>>/usr/lib/os-release) && echo open; (exec 3>>/etc/passwd) && echo open; true")
    assert result.out == ""


@levels
async def test_files_outside_the_workspace_cannot_be_read(shell, level):
    result = await shell.run(
        level, f"cat {shell.secret}; ls {shell.outside}; cat /etc/shadow; cat /etc/gshadow; ls /root; ls /home; ls /var/lib"
    )
    assert result.out == ""
    assert result.ended.exit_code != 0


@levels
async def test_database_and_keys_are_unreadable_from_nested_workspace(shell, level):
    for name in ("clawsite.sqlite3", "secret.key", "gateway.token"):
        (shell.state / name).write_text("the-key-itself")
    shell.workspace = shell.state / "workspaces" / "main" / "user-1"
    shell.workspace.mkdir(parents=True)
    other = shell.state / "workspaces" / "main" / "user-2"
    other.mkdir()
    (other / "notes").write_text("the-key-itself")
    line = f"cd ../../..; cat *; cat {shell.state}/*; cat {other}/notes; find {shell.state} -type f; echo seen"
    result = await shell.run(level, line)
    assert result.out.replace("seen\n", "") == ""
    assert "seen" in result.out


async def test_state_directory_inside_the_workspace_is_hidden(shell):
    (shell.workspace / "mine").write_text("mine")
    shell.state = shell.workspace / ".clawsite"
    shell.state.mkdir()
    (shell.state / "secret.key").write_text("the-key-itself")
    result = await shell.run(
        SandboxLevel.BWRAP, "cat mine; ls -A .clawsite; cat .clawsite/secret.key; echo x > .clawsite/new; umount .clawsite"
    )
    assert result.out == "mine"
    assert os.listdir(shell.state) == ["secret.key"]


async def test_parent_of_a_hidden_directory_cannot_be_moved(shell):
    """A moved directory would be exposed to the next command, whose sandbox hides the old path."""
    shell.state = shell.workspace / "a" / "b" / ".clawsite"
    shell.state.mkdir(parents=True)
    (shell.state / "secret.key").write_text("the-key-itself")
    await shell.run(SandboxLevel.BWRAP, "mv a/b/.clawsite a/b/x; mv a/b a/x; mv a x; rm -rf a; mkdir y && mv y/../a y")
    assert (shell.state / "secret.key").read_text() == "the-key-itself"
    result = await shell.run(
        SandboxLevel.BWRAP, "cat */secret.key */*/secret.key */*/*/secret.key a/b/.clawsite/secret.key; echo x > a/b/new"
    )
    assert result.out == ""
    assert (shell.workspace / "a" / "b" / "new").read_text() == "x\n"


@pytest.fixture
def in_usr(shell):
    """A state directory below a system directory, with a workspace in it."""
    if not os.access("/usr/local", os.W_OK):
        pytest.skip("may not write to /usr/local")
    with tempfile.TemporaryDirectory(dir="/usr/local", prefix="clawsite-test-") as above:
        shell.state = Path(above)
        shell.workspace = shell.state / "workspaces" / "main" / "user-1"
        other = shell.state / "workspaces" / "main" / "user-2"
        for directory in (shell.workspace, other):
            directory.mkdir(parents=True)
        for path in (shell.state / "secret.key", shell.state / "clawsite.sqlite3", other / "notes"):
            path.write_text("the-key-itself")
        shell.state.chmod(0o755)
        yield shell


async def test_state_directory_under_usr_is_hidden(in_usr):
    line = f"find {in_usr.state} -type f; cat {in_usr.state}/secret.key ../user-2/notes; echo mine > made; echo seen"
    result = await in_usr.run(SandboxLevel.BWRAP, line)
    assert result.out == "seen\n"
    assert (in_usr.workspace / "made").read_text() == "mine\n"


async def test_state_directory_under_usr_is_readable_without_check(in_usr, monkeypatch):
    monkeypatch.setattr(paths, "list_visible_system", lambda **network: [])
    assert "the-key-itself" in (await in_usr.run(SandboxLevel.BWRAP, f"cat {in_usr.state}/secret.key")).out


async def test_landlock_refuses_a_state_directory_under_usr(in_usr):
    with pytest.raises(SandboxUnavailable, match="landlock can’t hide it"):
        await in_usr.run(SandboxLevel.LANDLOCK, f"cat {in_usr.state}/secret.key")


@levels
@pytest.mark.parametrize("name", ["db.sqlite3", "still-to-come/audit.jsonl"])
async def test_server_file_in_the_workspace_is_refused(shell, level, name):
    """SQLite creates and deletes files next to a database, and a mount disappears with the file it covers."""
    (shell.workspace / "db.sqlite3").write_text("rows")
    with pytest.raises(SandboxUnavailable, match=f"{name} is visible to commands"):
        await shell.run(level, "cat db.sqlite3", sandbox=shell.sandbox(level, hidden=(shell.state, shell.workspace / name)))
    inside = (shell.state, shell.state / name)  # disappears with its directory
    assert (await shell.run(level, "echo fine", sandbox=shell.sandbox(level, hidden=inside))).out == "fine\n"


async def test_server_code_in_the_workspace_is_read_only(shell):
    code = shell.workspace / "src" / "claw"
    (code / ".clawsite").mkdir(parents=True)
    (code / "gate.py").write_text("deny\n")
    (code / ".clawsite" / "secret.key").write_text("the-key-itself")
    box = shell.sandbox(SandboxLevel.BWRAP, unwritable=(code,), hidden=(code / ".clawsite",))
    line = """cat src/claw/gate.py; echo allow > src/claw/gate.py; rm src/claw/gate.py; mv src/claw src/x; mv src x
    cat src/claw/.clawsite/secret.key; echo x > src/mine"""
    result = await shell.run(SandboxLevel.BWRAP, line, sandbox=box)
    assert result.out == "deny\n"
    assert (code / "gate.py").read_text() == "deny\n"
    assert (shell.workspace / "src" / "mine").exists()
    with pytest.raises(SandboxUnavailable, match="landlock can’t protect it"):
        await shell.run(SandboxLevel.LANDLOCK, "true", sandbox=shell.sandbox(SandboxLevel.LANDLOCK, unwritable=(code,)))


@levels
async def test_workspace_in_server_code_must_be_in_state_directory(shell, level):
    with pytest.raises(SandboxUnavailable, match="is part of this server’s code"):
        await shell.run(level, "true", sandbox=shell.sandbox(level, unwritable=(shell.above,), hidden=(shell.state,)))
    box = shell.sandbox(level, workspace=shell.state / "user-1", unwritable=(shell.above,))
    box.workspace.mkdir()
    assert (await shell.run(level, "echo x > made; cat made", sandbox=box, cwd=box.workspace)).out == "x\n"


@levels
async def test_workspace_symlink_to_outside_cannot_be_followed(shell, level):
    (shell.workspace / "link").symlink_to(shell.secret)
    (shell.workspace / "above").symlink_to(shell.outside)
    result = await shell.run(level, "cat link; cat above/secret; echo x > link; echo x > above/new")
    assert result.out == ""
    assert shell.secret.read_text() == "a-secret-outside"
    assert os.listdir(shell.outside) == ["secret"]


@levels
async def test_root_of_another_process_is_not_reachable(shell, level):
    look = f"cat /proc/$n/root{shell.secret}; cat /proc/$n/cwd/pyproject.toml; cat /proc/$n/environ"
    line = f"for n in 1 {os.getpid()} {os.getppid()}; do {look}; done"
    result = await shell.run(level, line, env={"PATH": "/usr/bin"})
    assert "secret" not in result.out
    assert "CLAWSITE" not in result.out
    assert "[project]" not in result.out


@levels
async def test_network_is_blocked_by_default(shell, level, listener):
    port, came = listener
    result = await shell.run(
        level, f"(exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3); (exec 3<>/dev/udp/127.0.0.1/{port}; echo x >&3) && echo sent"
    )
    assert "welcome" not in result.out
    if level == SandboxLevel.LANDLOCK:
        assert "sent" not in result.out  # in its own namespace a datagram may be sent, but reaches no one
    assert came == []


@levels
async def test_network_is_reachable_when_enabled(shell, level, listener):
    port, _came = listener
    result = await shell.run(level, f"exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3", sandbox=shell.sandbox(level, network=True))
    assert result.out == "welcome\n"


async def test_network_is_reachable_without_its_own_namespace(shell, listener, monkeypatch):
    port, came = listener
    monkeypatch.setattr(bwrap, "NAMESPACES", (*bwrap.NAMESPACES, "--share-net"))
    result = await shell.run(SandboxLevel.BWRAP, f"exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3")
    assert "welcome" in result.out
    assert came


@levels
async def test_socket_families_outside_namespaces_are_blocked(shell, level):
    line = (
        "import socket\nfor family in (40, 17, 38):\n  try: socket.socket(family, 1); print('made', family)\n  except OSError: pass"
    )
    assert (await shell.run(level, f'/usr/bin/python3 -c "{line}"')).out == ""


@levels
async def test_socket_in_the_state_directory_is_unreachable(shell, level):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(shell.state / "bus"))
        server.listen()
        line = f"import socket; socket.socket(socket.AF_UNIX).connect('{shell.state}/bus'); print('connected')"
        result = await shell.run(level, f'/usr/bin/python3 -c "{line}"')
    assert "connected" not in result.out


@levels
async def test_other_processes_cannot_be_signaled(shell, level):
    with subprocess.Popen(["sleep", "600"]) as other:  # noqa: ASYNC220  # it only sleeps
        try:
            result = await shell.run(level, f"kill -TERM {other.pid} && echo sent; kill -0 {os.getpid()} && echo sent; true")
            assert result.out == ""
            assert other.poll() is None
        finally:
            other.send_signal(signal.SIGKILL)


@levels
@pytest.mark.parametrize(
    "attempt",
    [
        "unshare --user true",
        "unshare --user --map-root-user --mount true",
        "unshare --net true",
        "mkdir m && mount -t tmpfs none m && umount m",
        "mkdir m && mount --bind m m && umount m",
        "chroot / true",
        "/usr/bin/python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(0, 0, 0, 0) != 0)'",
        "/usr/bin/python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(425, 1, bytes(120)) < 0)'",  # io_uring_setup
        "/usr/bin/python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(250, 0, -3, 1) < 0)'",  # keyctl
        "/usr/bin/python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(321, 0, bytes(72), 72) < 0)'",  # bpf
        "/usr/bin/python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(56, 0x10000011, 0, 0, 0, 0) < 0)'",  # clone
        "(exec 3>>/proc/sys/kernel/core_pattern)",
        "(exec 3>>/proc/sysrq-trigger)",
    ],
)
async def test_privileged_system_calls_are_refused(shell, level, attempt):
    result = await shell.run(level, f"{attempt} && echo went-through")
    assert "went-through" not in result.out


@levels
async def test_capabilities_are_dropped_and_cannot_be_gained(shell, level):
    result = await shell.run(level, "cat /proc/self/status")
    status = dict(line.split(":\t") for line in result.out.splitlines() if ":\t" in line)
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"  # setuid programs keep the user who started them
    assert status["Seccomp"] == "2"


@levels
async def test_setuid_program_gains_no_privileges(shell, level):
    result = await shell.run(level, "su root -c 'echo became root' </dev/null; cp /usr/bin/id id && chmod u+s id && ./id -un")
    assert "became root" not in result.out
    assert result.out.strip() in ("", "nobody", "root", os.environ.get("USER", "")) or "agent" in result.out


@levels
async def test_terminal_input_cannot_be_injected(shell, level):
    line = "import fcntl; fcntl.ioctl(0, 0x5412, b'x'); print('typed')"
    result = await shell.run(level, f'/usr/bin/python3 -c "{line}"', pty=True)
    assert "typed" not in result.out.replace("ioctl", "").split("print('typed')")[-1]


@levels
async def test_fork_bomb_stops_at_the_process_limit(shell, level):
    """The command tries to create five times as many sleeping processes as allowed, and counts those it got."""
    result = await shell.run(level, f'/usr/bin/python3 -c "{COUNT_FORKS}"', limits=ProcessLimits(processes=40))
    assert 5 <= int(result.out) <= 40


@levels
async def test_file_size_is_limited(shell, level):
    result = await shell.run(level, "head -c 5M /dev/zero > big; ls -l big | cut -d' ' -f5", limits=ProcessLimits(file_bytes=MIB))
    assert (shell.workspace / "big").stat().st_size <= MIB
    assert result.out.strip() == str(MIB)


async def test_tmp_and_other_writable_mounts_are_small(shell):
    line = """for place in /tmp /dev/shm; do for n in 1 2 3 4; do head -c 1M /dev/zero > $place/$n; done; cat $place/* | wc -c; done
    for place in / /dev /usr /etc /var /proc "$HOME/.."; do (: > $place/new) && echo written $place; done; true"""
    result = await shell.run(SandboxLevel.BWRAP, line, limits=ProcessLimits(temporary_bytes=2 * MIB))
    tmp, shm, *written = result.out.splitlines()
    assert int(tmp) <= 2 * MIB
    assert int(shm) <= 2 * MIB
    assert written == []


async def test_command_filling_the_disk_is_killed(shell, monkeypatch):
    from tools_app.exec.processes.running import RunningProcess

    left = iter([10_000 * MIB])
    monkeypatch.setattr(RunningProcess, "_disk_left", lambda self: next(left, 1 * MIB))
    result = await shell.run(SandboxLevel.BWRAP, "sleep 600")
    assert result.ended.by == "disk"


@levels
async def test_process_memory_is_limited(shell, level):
    line = "x = bytearray(600 * 1024 * 1024); print('got it')"
    result = await shell.run(level, f'/usr/bin/python3 -c "{line}"', limits=ProcessLimits(memory_bytes=300 * MIB))
    assert "got it" not in result.out


@levels
async def test_commands_are_killed_first_when_memory_runs_out(shell, level):
    assert (await shell.run(level, "cat /proc/self/oom_score_adj")).out == "1000\n"
