"""Every conversation of the *.jsonl files beside this one, played against the real server."""

from pathlib import Path

import pytest

from tests.protocol.conftest import ORIGIN
from tests.protocol.scripts import ScriptPlayer, read_scripts

pytestmark = pytest.mark.dialect

CASES = [
    pytest.param(lines, id=f"{file.stem}: {name}")
    for file in sorted(Path(__file__).parent.glob("*.jsonl"))
    for name, lines in read_scripts(file)
]


@pytest.mark.parametrize("lines", CASES)
async def test_conversation(lines, sockets, hand, settings, person, token_of, cookie_of):
    somebody, auditor = person(name="somebody"), person("Auditor", name="auditor")
    known = {
        "gateway": "test-gateway-token",
        "person": token_of(somebody),
        "reader": token_of(somebody, "operator.read"),
        "auditor": token_of(auditor),
        "stranger": token_of(person(name="stranger")),
        "operator": token_of(person("User", "Operator", name="operator")),
        "cookie": cookie_of(somebody),
        "origin": ORIGIN,
        "foreign": ORIGIN.replace("8765", "3000"),
    }
    await ScriptPlayer(sockets, hand, settings, known).play(lines)
