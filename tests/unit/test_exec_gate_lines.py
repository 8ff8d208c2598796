"""Many command lines at the exec gate: ordinary ones need no approval, hostile ones are never allowed.

Each table is one test: a thousand tests of 8 ms each would take longer to set up than to run.
"""

import asyncio

import pytest

from tests.unit.exec_gate import ALL, make_place, verdict
from tests.unit.exec_gate_hostile import DANGEROUS, HOSTILE
from tests.unit.exec_gate_ordinary import ORDINARY
from tools_app.exec.gate.types import GateRules

FULL = GateRules("full", "off")


@pytest.fixture
def place(tmp_path, monkeypatch):
    return make_place(tmp_path, monkeypatch)


async def judgements(lines, place, rules=ALL):
    turns = asyncio.Semaphore(4)

    async def one(line):
        async with turns:
            return await verdict(line, place, rules)

    return dict(zip(lines, await asyncio.gather(*map(one, lines)), strict=True))


async def test_ordinary_commands_are_allowed(place):
    asked = {
        line: [each.text for each in found.reasons] for line, found in (await judgements(ORDINARY, place)).items() if found.reasons
    }
    assert asked == {}


async def test_hostile_commands_are_not_allowed_and_give_reasons(place):
    judged = await judgements(HOSTILE, place)
    assert [line for line, found in judged.items() if found.effect == "allow"] == []
    assert [
        line for line, found in judged.items() if not all(each.code and each.text for each in found.reasons) or not found.reasons
    ] == []
    # Lines that need approval because of what they do, not because the analysis failed.
    assert [line for line, found in judged.items() if found.analysis.unparsed] == []


async def test_dangerous_commands_are_denied_under_any_rules(place):
    judged = await judgements(DANGEROUS, place, FULL)
    assert [line for line, found in judged.items() if found.effect != "deny"] == []


async def test_blocklist_ignores_ordinary_commands(place):
    judged = await judgements(ORDINARY, place, FULL)
    assert [line for line, found in judged.items() if found.effect != "allow"] == []


def test_command_tables_have_the_required_size():
    assert len(set(ORDINARY)) >= 80
    assert len(set(HOSTILE)) >= 150
