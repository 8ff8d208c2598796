"""Frames that a careless, broken or hostile client may send, and the expected response to each.

Most are requests with real methods of the caller's role and plausible or nearly plausible parameters; the others are frames with a
changed property, and text that is not a frame at all. The expected response is derived from the text independently of the gateway's
code.
"""

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from clawsite.gateway.server.schema import protocol_schema
from tests.protocol.isolation import fill_params, find_reference
from tests.protocol.isolation_params import EXAMPLES

# These methods respond when a run ends or a person decides, which never happens here.
WAITING = {"agent.wait", "exec.approval.waitDecision", "exec.approval.request", "tools.invoke", "sessions.compact", "node.invoke"}
METHODS = protocol_schema()["methods"]
CALLED = {role: sorted(name for name, method in METHODS.items() if method["role"] == role) for role in ("operator", "node")}
ALL = [*CALLED["operator"], *CALLED["node"], "no.such.method", "connect"]
LONGEST_NAME = 512

WORDS = st.sampled_from(
    ["", " ", "x", "main", "agent:main:main", "agent::", "session:", "\x00", "a\x00b", "%", "' OR 1=1 --", "𝕏\u202e"]
)
NUMBERS = st.sampled_from([0, 1, -1, 2**31, 2**53, 2**63, 2**70, 1.5, 1e308])
OTHERS = st.sampled_from([None, True, False, [], {}, [None], {"id": "x"}, [{"id": "x"}], ["main"]])
TIMES = st.sampled_from(["2026-02-01T10:15:00Z", "9999-99-99T00:00:00Z", "1970-01-01T00:00:00Z"])


OF_TYPE = {
    "string": st.sampled_from(["k1", "k2", "main", " ", "%", "𝕏\u202e"]),
    "integer": st.sampled_from([0, 1, 50]),
    "boolean": st.booleans(),
    "array": st.just([]),
}

Names = dict[str, list[Any]]  # kind (owned_objects.py) -> IDs of objects of that kind


@dataclass(frozen=True)
class Sent:
    text: str
    id: str  # of the expected response
    waits: bool = False  # the response may never arrive
    valid: bool = False


def values(names: Names) -> st.SearchStrategy[Any]:
    """Possible parameter values: IDs of the caller's and other users' objects, and nonsense."""
    every = st.sampled_from([name for some in names.values() for name in some])
    return st.one_of(every, every, WORDS, NUMBERS, OTHERS, TIMES, st.text(max_size=20))


def fitting(method: str, parameter: str, names: Names) -> st.SearchStrategy[Any]:
    """A plausible value: an ID of the right kind, a known choice, an example, or a value of the right type."""
    schema = METHODS[method]["params"]["properties"][parameter]
    kinds = [schema, *schema.get("anyOf", ())]
    if taken := find_reference(method, parameter):
        named = st.sampled_from([name for kind in taken.kinds for name in names[kind]])
        return named.map(lambda name: fill_params(taken.shape, name))
    if words := [word for kind in kinds for word in kind.get("enum", ())]:
        return st.sampled_from(words)
    if parameter in EXAMPLES:
        return st.just(EXAMPLES[parameter])
    return st.one_of(*(OF_TYPE.get(kind.get("type"), OTHERS) for kind in kinds if "anyOf" not in kind))


def sensible(method: str, names: Names) -> st.SearchStrategy[dict[str, Any]]:
    """Parameters of a method: all required ones, a session, and possibly others."""
    schema = METHODS[method]["params"]
    known = sorted(schema.get("properties", ()))
    needed = [*schema.get("required", ()), *(name for name in ("key", "sessionKey") if name in known)]
    others = st.lists(st.sampled_from(known), max_size=2) if known else st.just([])
    return others.flatmap(lambda some: st.fixed_dictionaries({name: fitting(method, name, names) for name in [*needed, *some]}))


def aimed(method: str, names: Names) -> st.SearchStrategy[Sent]:
    """A request that reaches the method."""
    frame = {"type": "req", "id": "aimed", "method": method}
    return sensible(method, names).map(lambda params: read(json.dumps({**frame, "params": params})))


def requests(names: Names, role: str) -> st.SearchStrategy[dict[str, Any]]:
    """A valid request. Two thirds have plausible parameters; the others have arbitrary ones."""
    own = st.sampled_from(CALLED[role])

    @st.composite
    def draw_one(draw: Any) -> dict[str, Any]:
        method = draw(st.one_of(own, own, own, st.sampled_from(ALL)))
        known = sorted(METHODS.get(method, {}).get("params", {}).get("properties", ()))
        anyhow = st.dictionaries(st.sampled_from([*known, "unheardOf"]), values(names), max_size=4)
        params = draw(sensible(method, names) if method in CALLED[role] and draw(st.integers(0, 2)) else anyhow)
        frame = {"type": "req", "id": draw(st.text(min_size=1, max_size=8)), "method": method, "params": params}
        if "message" in known and draw(st.booleans()):
            frame["params"] = {"message": "hi", "idempotencyKey": draw(st.sampled_from(["k1", "k2", "k3"])), **params}
        if draw(st.booleans()):
            frame["idempotencyKey"] = "k4"
        return frame

    return draw_one()


def changed(names: Names, role: str) -> st.SearchStrategy[dict[str, Any]]:
    """A request with one property removed or replaced."""

    @st.composite
    def draw_one(draw: Any) -> dict[str, Any]:
        frame = draw(requests(names, role))
        part = draw(st.sampled_from(["type", "id", "method", "params", "idempotencyKey", "unheardOf"]))
        if draw(st.booleans()):
            frame.pop(part, None)
        else:
            frame[part] = draw(
                st.one_of(WORDS, NUMBERS, OTHERS, st.just("x" * (LONGEST_NAME + 1)), st.just("res"), st.just("event"))
            )
        return frame

    return draw_one()


def frames(names: Names, role: str = "operator") -> st.SearchStrategy[Sent]:
    request = requests(names, role)
    whole = st.one_of(request, request, request, changed(names, role)).map(lambda frame: read(json.dumps(frame)))
    values_only = st.one_of(OTHERS, NUMBERS, WORDS).map(lambda value: read(json.dumps(value)))
    broken = st.tuples(request, st.integers(0, 200)).map(lambda both: read(json.dumps(both[0])[: both[1]]))
    text = st.text(max_size=40).filter(lambda text: not _is_json(text)).map(read)
    return st.one_of(*[whole] * 9, values_only, broken, text)


def read(text: str) -> Sent:
    """What the protocol says about a text: the ID of the response, and whether it is a request."""
    try:
        frame = json.loads(text)
    except ValueError:
        return Sent(text, "invalid")
    if not isinstance(frame, dict):
        return Sent(text, "invalid")
    id = frame.get("id")  # NUL is removed from all input
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
