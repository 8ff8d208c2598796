"""The gate against bash: allowed lines run only what is on the allowlist. CLAWSITE_FUZZ_LINES sets the number of lines."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.fuzz import oracle
from tests.fuzz.chance import SEED
from tests.fuzz.grammar import GOOD, WORDS_OF_GOOD, Lines
from tools_app.exec.gate import examine, verdict
from tools_app.exec.gate.shell import shfmt
from tools_app.exec.gate.types import AllowEntry, ExecContext, Executable, GateRules

COUNT = int(os.environ.get("CLAWSITE_FUZZ_LINES", "1500"))
ALLOWED = frozenset(GOOD) | frozenset(WORDS_OF_GOOD)
RULES = GateRules("allowlist", "on-miss", tuple(AllowEntry(name) for name in sorted(ALLOWED)))
# Lines in which bash runs xx unseen by the parsers, one of each kind found in earlier rounds.
KNOWN_MISSES = (
    "aa # note \\\nxx",
    'aa "$\\\n(xx)"',
    "aa ${v:-$\\\n(xx)}",
    "cat <<E\nx\\\nE\nE\nxx",
)

pytestmark = pytest.mark.skipif(bool(oracle.trouble()), reason=f"no sandbox for bash here: {oracle.trouble()}")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A directory with some files, and an allowlist whose programs don't have to be installed."""
    folder = tmp_path / "files"
    (folder / "src").mkdir(parents=True)
    for name in ("xx", "f.txt", "a b", "--yy", "a.py"):
        (folder / name).write_text("text\n")

    def find(name, cwds, place):
        return Executable(name, f"/programs/{name}", f"/programs/{name}", "", bare=name) if name in ALLOWED else None

    monkeypatch.setattr(examine, "find_executable", find)
    monkeypatch.setattr(shfmt, "TIMEOUT_SECONDS", 30)  # the machine may be slow, and speed is not tested here
    monkeypatch.setattr(verdict, "_cache", type(verdict._cache)())
    return folder


async def allowed_of(lines: list[str], files: Path) -> list[str]:
    place = ExecContext(files, (files,), ())
    turns = asyncio.Semaphore(4)

    async def is_allowed(line: str) -> bool:
        async with turns:
            return verdict.judge(await verdict.analyze(line, place), RULES).effect == "allow"

    answers = await asyncio.gather(*(is_allowed(line) for line in lines))
    return [line for line, answer in zip(lines, answers, strict=True) if answer]


async def missed(lines: list[str], files: Path, scratch: Path) -> tuple[int, int, list[tuple[str, set[str]]]]:
    """Return how many lines were allowed, how many of these ran anything, and those that ran something not on the allowlist."""
    allowed = await allowed_of(lines, files)
    ran = await asyncio.to_thread(oracle.what_ran, allowed, files, scratch)
    wrong = [(line, names - ALLOWED) for line, names in zip(allowed, ran, strict=True) if names - ALLOWED]
    return len(allowed), sum(map(bool, ran)), wrong


@pytest.mark.timeout(3600)
async def test_allowed_commands_run_only_allowlisted_programs(files, tmp_path):
    grammar = Lines(SEED)
    lines = [grammar.line() for _ in range(COUNT)]
    allowed, ran, wrong = await missed(lines, files, tmp_path)
    print(f"CLAWSITE_FUZZ_SEED={SEED}: {COUNT} lines, {allowed} allowed, {ran} of them ran something, {len(wrong)} misses")
    assert not wrong, f"CLAWSITE_FUZZ_SEED={SEED}: {wrong[:5]!r}"
    # A gate that allows nothing, or an oracle that sees nothing, would pass the assertion above.
    assert allowed > COUNT / 20 and ran > allowed / 2, f"CLAWSITE_FUZZ_SEED={SEED}: {allowed} allowed, {ran} ran"


async def test_known_parser_misses_require_approval(files):
    assert await allowed_of(list(KNOWN_MISSES), files) == []


async def test_fuzz_detects_missing_spelling_filter(files, tmp_path, monkeypatch):
    monkeypatch.setattr(verdict, "find_spelling_doubts", lambda line: ())
    _, _, wrong = await missed(list(KNOWN_MISSES), files, tmp_path)
    assert wrong


async def test_fuzz_detects_missing_node_type_check(files, tmp_path, monkeypatch):
    from tools_app.exec.gate.shell import find_commands
    from tools_app.exec.gate.shell.second_parser import SecondParserResult

    monkeypatch.setattr(find_commands.Walker, "part", lambda self, node: None)
    monkeypatch.setattr(verdict, "run_second_parser", lambda line: SecondParserResult())
    _, _, wrong = await missed(["aa $(xx)", 'aa "$(xx)"', "aa ${v:-$(xx)}"], files, tmp_path)
    assert len(wrong) == 3
