"""When the gate itself fails, it requires approval, or denies if asking is off. It never allows."""

import asyncio
import os
import stat

import pytest

from tests.unit.exec_gate import ALL, make_place, verdict
from tools_app.exec.gate import examine
from tools_app.exec.gate import verdict as gate
from tools_app.exec.gate.shell import second_parser, shfmt
from tools_app.exec.gate.types import GateRules


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(gate, "_cache", type(gate._cache)())
    return make_place(tmp_path, monkeypatch)


def shfmt_is(monkeypatch, tmp_path, script):
    """Replace shfmt with this script."""
    program = tmp_path / "shfmt"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(shfmt, "find_shfmt", lambda: str(program))


def still_runs(noted):
    """Return whether the process with the recorded PID is alive; False if it did not get that far."""
    return noted.exists() and os.path.exists(f"/proc/{noted.read_text().strip() or 'none'}")


async def asks_and_is_unread(place):
    judged = await verdict("ls -la", place)
    off = gate.judge(judged.analysis, GateRules("allowlist", "off", ALL.allow))
    full = gate.judge(judged.analysis, GateRules("full", "off"))
    return (judged.effect, off.effect, full.effect) == ("ask", "deny", "deny") and judged.analysis.unparsed


async def test_missing_parser_requires_approval(place, monkeypatch):
    monkeypatch.setattr(shfmt, "find_shfmt", lambda: None)
    assert await asks_and_is_unread(place)


@pytest.mark.parametrize(
    "script",
    [
        "exit 3",
        "exit 0",
        "echo '{}'",
        "echo '[]'",
        "echo null",
        "kill -9 $$",
        "echo no; exit 2",
        "printf '%0200000d' 0 | tr 0 '['",
        'echo \'{"Type": "File"\'',
    ],
)
async def test_malformed_parser_output_is_not_trusted(place, monkeypatch, tmp_path, script):
    shfmt_is(monkeypatch, tmp_path, f"cat >/dev/null; {script}")
    assert await asks_and_is_unread(place)


async def test_parser_is_killed_after_its_timeout(place, monkeypatch, tmp_path):
    monkeypatch.setattr(shfmt, "TIMEOUT_SECONDS", 0.2)
    shfmt_is(monkeypatch, tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60")
    assert await asks_and_is_unread(place)
    assert not still_runs(tmp_path / "pid")


async def test_analysis_exception_requires_approval(place, monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError

    monkeypatch.setattr(examine, "walk_tree", broken)
    assert await asks_and_is_unread(place)


@pytest.mark.parametrize(
    "line",
    ["(" * 5000 + "ls" + ")" * 5000, "{ " * 2000 + "ls" + "; }" * 2000, "! " * 5000 + "ls", "ls " + "${x:-" * 2000 + "}" * 2000],
)
async def test_deeply_nested_command_is_not_allowed(place, line):
    assert (await verdict(line, place)).effect != "allow"


async def test_command_unreadable_by_second_parser_needs_approval(place, monkeypatch):
    monkeypatch.setattr(gate, "run_second_parser", lambda line: second_parser.SecondParserResult(trouble="it cannot tell"))
    assert (await verdict("ls", place)).effect == "ask"


async def test_program_found_only_by_second_parser_needs_approval(place, monkeypatch):
    monkeypatch.setattr(gate, "run_second_parser", lambda line: second_parser.SecondParserResult(frozenset({"ls", "evil"})))
    assert (await verdict("ls", place)).effect == "ask"


async def test_unknown_syntax_node_requires_approval(place, monkeypatch):
    async def parse(line):
        tree = await original(line)
        tree["Stmts"][0]["Surprise"] = True
        return tree

    original = shfmt.parse_line
    monkeypatch.setattr(gate, "parse_line", parse)
    assert (await verdict("ls", place)).effect == "ask"


async def test_event_loop_keeps_running_during_analysis(place, monkeypatch, tmp_path):
    """The fake program waits for a file that only this event loop creates: an analysis that blocked the loop would never end."""
    shfmt_is(monkeypatch, tmp_path, f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; exit 3")
    analysis = asyncio.create_task(gate.analyze("ls", place))
    await asyncio.sleep(0.05)
    (tmp_path / "go").touch()
    assert (await analysis).unparsed


async def test_parsed_commands_are_cached_up_to_a_limit(place, monkeypatch):
    read = []

    async def parse(line):
        read.append(line)
        return await original(line)

    original = shfmt.parse_line
    monkeypatch.setattr(gate, "parse_line", parse)
    monkeypatch.setattr(gate, "MAX_CACHED_LINES", 2)
    for line in ("ls", "ls", "ls -l", "ls", "ls -a", "ls -l"):
        await verdict(line, place)
    assert read == ["ls", "ls -l", "ls -a", "ls -l"]
    assert len(gate._cache) == 2
