"""Frames as a careless, broken or hostile client may send them, and what must come back for each.

Half of them are requests with real methods and parameters that nearly make sense; the others are frames with a property changed,
and text that is no frame at all. What is right is read here from the text by other means than the gateway's.
"""

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from clawsite.gateway.schema import protocol_schema

# They answer when a run ends or a person decides; here nobody does.
WAITING = {"agent.wait", "exec.approval.waitDecision", "exec.approval.request", "tools.invoke", "sessions.compact"}
METHODS = {name: sorted(method["params"].get("properties", ())) for name, method in protocol_schema()["methods"].items()}
CALLED = sorted(set(METHODS) - {"connect"})
LONGEST_NAME = 512

WORDS = st.sampled_from(
    ["", " ", "x", "main", "agent:main:main", "agent::", "session:", "\x00", "a\x00b", "%", "' OR 1=1 --", "𝕏\u202e"]
)
NUMBERS = st.sampled_from([0, 1, -1, 2**31, 2**53, 2**63, 2**70, 1.5, 1e308])
OTHERS = st.sampled_from([None, True, False, [], {}, [None], {"id": "x"}, [{"id": "x"}], ["main"]])
TIMES = st.sampled_from(["2026-02-01T10:15:00Z", "9999-99-99T00:00:00Z", "1970-01-01T00:00:00Z"])


@dataclass(frozen=True)
class Sent:
    text: str
    id: str  # of the answer that must come
    waits: bool = False  # the answer may take for ever
    valid: bool = False


def values(names: list[Any]) -> st.SearchStrategy[Any]:
    """What a parameter may be: names of things, one's own and others', and nonsense."""
    return st.one_of(st.sampled_from(names), st.sampled_from(names), WORDS, NUMBERS, OTHERS, TIMES, st.text(max_size=20))


def requests(names: list[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A request that is one, whatever its parameters say."""

    @st.composite
    def draw_one(draw: Any) -> dict[str, Any]:
        method = draw(st.one_of(st.sampled_from(CALLED), st.sampled_from([*CALLED, "no.such.method", "connect"])))
        known = METHODS.get(method) or ["x"]
        params = draw(st.dictionaries(st.sampled_from([*known, "unheardOf"]), values(names), max_size=4))
        frame = {"type": "req", "id": draw(st.text(min_size=1, max_size=8)), "method": method, "params": params}
        if "message" in known and draw(st.booleans()):
            frame["params"] = {"message": "hi", "idempotencyKey": draw(st.sampled_from(["k1", "k2", "k3"])), **params}
        if draw(st.booleans()):
            frame["idempotencyKey"] = "k4"
        return frame

    return draw_one()


def changed(names: list[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A request with one property taken out or made something else."""

    @st.composite
    def draw_one(draw: Any) -> dict[str, Any]:
        frame = draw(requests(names))
        part = draw(st.sampled_from(["type", "id", "method", "params", "idempotencyKey", "unheardOf"]))
        if draw(st.booleans()):
            frame.pop(part, None)
        else:
            frame[part] = draw(
                st.one_of(WORDS, NUMBERS, OTHERS, st.just("x" * (LONGEST_NAME + 1)), st.just("res"), st.just("event"))
            )
        return frame

    return draw_one()


def frames(names: list[Any]) -> st.SearchStrategy[Sent]:
    whole = st.one_of(requests(names), requests(names), changed(names)).map(lambda frame: read(json.dumps(frame)))
    values_only = st.one_of(OTHERS, NUMBERS, WORDS).map(lambda value: read(json.dumps(value)))
    broken = st.tuples(requests(names), st.integers(0, 200)).map(lambda both: read(json.dumps(both[0])[: both[1]]))
    text = st.text(max_size=40).filter(lambda text: not _is_json(text)).map(read)
    return st.one_of(whole, whole, whole, values_only, broken, text)


def read(text: str) -> Sent:
    """What the protocol says about a text: the id of its answer, and whether it is a request."""
    try:
        frame = json.loads(text)
    except ValueError:
        return Sent(text, "invalid")
    if not isinstance(frame, dict):
        return Sent(text, "invalid")
    id = frame.get("id")  # NUL is taken out of everything that is said
    id = id.replace("\x00", "") if isinstance(id, str) else id
    valid = (
        frame.get("type") == "req"
        and _is_name(id)
        and _is_name(frame.get("method"))
        and isinstance(frame.get("params"), dict | None)
        and (frame.get("idempotencyKey") is None or _is_name(frame["idempotencyKey"]))
    )
    return Sent(text, id if isinstance(id, str) and id else "invalid", valid and frame["method"] in WAITING, bool(valid))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= LONGEST_NAME


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
