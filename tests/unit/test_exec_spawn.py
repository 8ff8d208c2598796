"""The life of a command: started exactly as given, read, written to, and ended with all its processes."""

import asyncio
import os
import sys
import uuid
from dataclasses import replace

import pytest

from tests.harness.sandbox import Shell, eventually_async, find_marked_processes
from tools_app.exec.processes import running as running_module
from tools_app.exec.processes.output import OutputCollector, StreamDecoder
from tools_app.exec.processes.running import NoTerminal
from tools_app.exec.processes.spawn import start_process
from tools_app.exec.processes.terminal_keys import UnknownKey, encode_keys
from tools_app.exec.sandbox.types import MIB, OutputChunk, SandboxLevel, SpawnFailed

levels = pytest.mark.parametrize("level", list(SandboxLevel), ids=lambda level: level.label)
# Three ways to detach: another session, a double fork, no hang-ups. All of them ignore SIGTERM.
RUNAWAYS = """
trap '' TERM HUP INT
setsid sleep 600 &
(setsid bash -c 'trap "" TERM; sleep 600 & sleep 600' & ) &
nohup sleep 600 >/dev/null 2>&1 &
echo started
wait
"""


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path)


@pytest.fixture
def marker():
    return f"marked-{uuid.uuid4().hex}"


async def read_until(running, words: bytes) -> bytes:
    said = b""
    async for chunk in running.output():
        said += chunk.data
        if words in said:
            return said
    raise AssertionError(f"it ended without {words!r}: {said!r}")


@levels
async def test_command_is_passed_to_bash_unchanged(shell, level):
    line = "printf '%s\\n' \"a  b\" {1..3} 'ünï' \"${BASH_VERSION:+bash}\"; shopt -q login_shell || echo plain"
    result = await shell.run(level, line)
    assert result.out.splitlines() == ["a  b", "1", "2", "3", "ünï", "bash", "plain"]


@levels
async def test_command_may_begin_with_a_dash(shell, level):
    result = await shell.run(level, "-c 'echo an option'")
    assert result.out == ""
    assert "-c: command not found" in result.err


@levels
async def test_argv_is_run_without_a_shell(shell, level):
    result = await shell.run(level, "echo never", argv=("/usr/bin/printf", "%s|", "$HOME", "a b", ""))
    assert result.out == "$HOME|a b||"


@pytest.mark.parametrize("changed", [{"argv": ("printf", "x")}, {"argv": ()}, {"line": "echo \0"}])
async def test_invalid_command_is_not_started(shell, changed):
    with pytest.raises(SpawnFailed):
        await start_process(shell.spawn(SandboxLevel.BWRAP, changed.pop("line", ""), **changed))


@levels
async def test_both_streams_and_the_exit_code_are_returned(shell, level):
    result = await shell.run(level, "echo out; echo err >&2; exit 7")
    assert (result.out, result.err, result.ended.exit_code, result.ended.by) == ("out\n", "err\n", 7, "itself")


@levels
async def test_signal_is_reported_by_name(shell, level):
    result = await shell.run(level, "kill -SEGV $$")
    assert (result.ended.signal, result.ended.timed_out) == ("SIGSEGV", False)
    assert result.err == ""


@levels
async def test_missing_program_exits_with_code_127(shell, level):
    result = await shell.run(level, "no-such-program")
    assert result.ended.exit_code == 127
    assert "command not found" in result.err


@levels
async def test_only_standard_streams_are_open_in_a_command(shell, level):
    held = os.open(shell.secret, os.O_RDONLY)
    os.set_inheritable(held, True)
    try:
        result = await shell.run(level, "ls /proc/self/fd")
    finally:
        os.close(held)
    assert result.out.split() == ["0", "1", "2", "3"]  # 3: the directory that ls reads


@levels
async def test_timeout_kills_process_tree_and_keeps_output(shell, level, marker):
    env = shell.spawn(level, "").env
    result = await shell.run(level, RUNAWAYS, env={**env, "MARKER": marker}, timeout_s=3)
    assert (result.out, result.ended.by, result.ended.timed_out, result.ended.exit_code) == ("started\n", "timeout", True, None)
    assert await eventually_async(lambda: not find_marked_processes(marker))


@levels
async def test_kill_ends_process_tree_and_keeps_output(shell, level, marker):
    spawn = shell.spawn(level, RUNAWAYS.replace("echo started", "echo started; echo more >&2; sleep 0.2; echo last"))
    running = await start_process(replace(spawn, env={**spawn.env, "MARKER": marker}))
    said = await read_until(running, b"last")
    assert find_marked_processes(marker)
    running.kill()
    ended = await running.wait()
    assert b"started" in said
    assert (ended.by, ended.signal) == ("kill", "SIGKILL")
    assert await eventually_async(lambda: not find_marked_processes(marker))


@levels
async def test_background_processes_end_with_the_command(shell, level, marker):
    env = shell.spawn(level, "").env
    result = await shell.run(level, RUNAWAYS.replace("wait", "exit 0"), env={**env, "MARKER": marker})
    assert result.ended.exit_code == 0
    assert await eventually_async(lambda: not find_marked_processes(marker))


@levels
async def test_leaving_the_context_kills_the_command(shell, level, marker):
    spawn = shell.spawn(level, "sleep 600", env={"PATH": "/usr/bin:/bin", "MARKER": marker})
    async with await start_process(spawn) as running:
        assert await eventually_async(lambda: bool(find_marked_processes(marker)))
    assert running.pid
    assert await eventually_async(lambda: not find_marked_processes(marker))


@levels
async def test_stdin_is_written_and_closed(shell, level):
    running = await start_process(shell.spawn(level, "cat; echo end"))
    await running.write(b"typed\n" * 50_000)
    running.close_stdin()
    collector = OutputCollector(1_000_000)
    async for chunk in running.output():
        collector.feed(chunk)
    assert collector.collected().stdout == "typed\n" * 50_000 + "end\n"
    assert (await running.wait()).exit_code == 0
    with pytest.raises(BrokenPipeError):
        await running.write(b"late")


@levels
async def test_pty_command_has_a_terminal(shell, level):
    spawn = shell.spawn(
        level, "test -t 0 && test -t 1 && test -t 2 && echo yes >/dev/tty; read -r word; echo got $word; stty size", pty=True
    )
    async with await start_process(spawn) as running:
        await read_until(running, b"yes")
        running.resize(40, 100)
        await running.write(b"hello")
        await running.send_keys("enter")
        assert b"40 100" in await read_until(running, b"40 100")


@levels
async def test_ctrl_c_reaches_only_the_command(shell, level):
    spawn = shell.spawn(level, "trap 'echo heard; exit 3' INT; echo ready; while :; do sleep 0.05; done", pty=True)
    running = await start_process(spawn)
    await read_until(running, b"ready")
    await running.send_keys("ctrl-c")
    await read_until(running, b"heard")
    ended = await running.wait()
    assert (ended.exit_code, ended.by) == (3, "itself")


@levels
async def test_sending_keys_requires_a_terminal(shell, level):
    async with await start_process(shell.spawn(level, "cat")) as running:
        with pytest.raises(NoTerminal):
            await running.send_keys("enter")
        with pytest.raises(NoTerminal):
            running.resize(1, 1)


def test_key_names_are_encoded_and_unknown_ones_rejected():
    assert encode_keys("ctrl-c", "UP", "enter", "ctrl-z") == b"\x03\x1b[A\r\x1a"
    with pytest.raises(UnknownKey):
        encode_keys("enter", "no-such-key")


@levels
async def test_endless_output_is_read_within_bounds(shell, level):
    running = await start_process(shell.spawn(level, "echo first; head -c 200M /dev/zero | tr '\\0' x; echo last"))
    running.close_stdin()
    collector = OutputCollector()
    async for chunk in running.output():
        collector.feed(chunk)
        assert len(chunk.data) <= running_module.CHUNK_BYTES
    printed = collector.collected()
    assert printed.stdout.startswith("first\nx")
    assert printed.stdout.endswith("xlast\n")
    assert printed.truncated
    assert printed.cut_bytes + len(printed.stdout.split("\n[…")[0]) > 200 * MIB - 100_000
    assert len(printed.stdout) < 110_000
    assert (await running.wait()).exit_code == 0


@levels
async def test_unread_output_does_not_delay_the_timeout(shell, level):
    running = await start_process(shell.spawn(level, "head -c 100M /dev/zero", timeout_s=2))
    ended = await running.wait()
    assert ended.timed_out
    assert running._queue.qsize() <= running_module.MAX_QUEUED_CHUNKS
    assert sum([len(chunk.data) async for chunk in running.output()]) < 20 * running_module.CHUNK_BYTES


async def test_unavailable_sandbox_gives_reason_and_runs_no_command(shell, monkeypatch):
    from tools_app.exec.sandbox import bwrap

    monkeypatch.setattr(bwrap, "NO_CAPABILITIES", ("--no-such-option",))
    with pytest.raises(SpawnFailed, match="no-such-option"):
        await start_process(shell.spawn(SandboxLevel.BWRAP, "touch ran"))
    assert os.listdir(shell.workspace) == []


async def test_command_runs_under_the_worker_event_loop(shell):
    """uvloop watches descriptors and children in its own way."""
    code = f"""
import uvloop
from pathlib import Path
from django.conf import settings
settings.configure(USE_I18N=False)
from tests.harness.sandbox import Shell
from tools_app.exec.sandbox.types import SandboxLevel
async def main():
    shell = Shell(Path({str(shell.above)!r}))
    for level in SandboxLevel:
        for pty in (False, True):
            result = await shell.run(level, "echo hello; exit 4", pty=pty)
            print(result.out.strip(), result.ended.exit_code)
uvloop.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert said.decode().splitlines() == ["hello 4"] * 6


def test_collector_keeps_whole_characters_and_counts_omissions():
    collector = OutputCollector(limit=101)
    for start_at in range(0, 900, 7):
        collector.feed(OutputChunk("stdout", ("é" * 450).encode()[start_at : start_at + 7]))
    printed = collector.collected()
    assert "\ufffd" not in printed.stdout
    kept = printed.stdout.count("é") * 2
    assert printed.cut_bytes == 900 - kept
    assert f"{printed.cut_bytes} bytes cut" in printed.stdout
    assert 90 <= kept <= 101


@pytest.mark.parametrize(
    ("out", "err", "truncated"), [(40, 60, False), (100, 0, False), (500, 10, True), (10, 500, True), (500, 500, True)]
)
def test_output_limit_is_shared_between_both_streams(out, err, truncated):
    collector = OutputCollector(limit=100)
    collector.feed(OutputChunk("stdout", b"o" * out))
    collector.feed(OutputChunk("stderr", b"e" * err))
    printed = collector.collected()
    kept_out, kept_err = printed.stdout.count("o"), printed.stderr.count("e") - ("bytes" in printed.stderr)
    assert printed.truncated is truncated
    assert kept_out + kept_err <= 101
    assert kept_out >= min(out, 10)
    assert kept_err >= min(err, 25)
    assert printed.cut_bytes >= max(0, out + err - 101)


def test_stream_decoder_joins_split_characters():
    live = StreamDecoder()
    data = "añ€😀".encode()
    assert "".join(live.feed(OutputChunk("stdout", data[at : at + 1])) for at in range(len(data))) == "añ€😀"
    assert live.feed(OutputChunk("stderr", b"\xe2\x82")) == ""
    assert live.flush("stderr") == "\ufffd"
