"""Play every conversation in the *.jsonl files of this directory against the real server."""

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
async def test_scripted_conversation_gets_expected_frames(lines, sockets, worker, settings, make_user, make_token, make_cookie):
    somebody, auditor = make_user(name="somebody"), make_user("Auditor", name="auditor")
    known = {
        "gateway": "test-gateway-token",
        "person": make_token(somebody),
        "reader": make_token(somebody, "operator.read"),
        "auditor": make_token(auditor),
        "stranger": make_token(make_user(name="stranger")),
        "operator": make_token(make_user("User", "Operator", name="operator")),
        "cookie": make_cookie(somebody),
        "origin": ORIGIN,
        "foreign": ORIGIN.replace("8765", "3000"),
    }
    await ScriptPlayer(sockets, worker, settings, known).play(lines)
