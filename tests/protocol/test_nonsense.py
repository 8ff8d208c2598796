"""Whatever a client puts into the parameters, it gets an answer, and never one that is our fault."""

import random

from clawsite.gateway.schema import protocol_schema

NONSENSE = [
    None, True, 0, 1, -1, 1.5, 2**53, 2**70, "", " ", "x", "x" * 1000, "\0", "a\0b", "9" * 5000, "agent:main:main", "agent:main:main\n",
    "agent::", "main", "operator.admin", "2026-02-01T10:15:00Z", "9999-99-99T00:00:00Z", "' OR 1=1 --", "%", "𝕏\u202e", [], [None], {}, {"a": 1},
    "00000000-0000-4000-8000-000000000000",
]  # fmt: skip


async def test_nonsense_is_answered_and_never_our_fault(sockets):
    socket = await sockets.connect(caps=["session-scoped-events"])
    await socket.call("sessions.create", {"key": "agent:main:main"})
    dice = random.Random(20260201)
    methods = {
        name: list(method["params"]["properties"])
        for name, method in protocol_schema()["methods"].items()
        if method["params"].get("properties")
    }
    for name in sorted(methods):
        for _ in range(40):
            params = {field: dice.choice(NONSENSE) for field in methods[name] if dice.random() < 0.6}
            if "timeoutMs" in params:
                params["timeoutMs"] = 0
            answer = await socket.request(name, params)
            assert answer["ok"] or answer["error"]["message"], answer
            assert not answer.get("error", {}).get("message", "").startswith("internal error"), (name, params, answer)
    assert await socket.call("health")
