"""Nearly valid JSON bodies: examples of what programs send, with some values replaced by random ones."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

Path = tuple[str | int, ...]

# Values that often cause errors: empty and unhashable ones, characters that databases reject, numbers of more than 64 bits.
AWKWARD = (
    [],
    {},
    [[]],
    [{}],
    {"type": []},
    "",
    "\0",
    "\ud800",
    "😀",
    0,
    -1,
    2**63,
    2**64,
    1e300,
    "function",
    "data:,",
    {"name": None},
)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20)
ANYTHING = st.recursive(
    st.sampled_from(AWKWARD) | PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


def nested(levels: int) -> Any:
    value: Any = "deep"
    for _ in range(levels):
        value = [value]
    return value


REPLACEMENTS = ANYTHING | st.sampled_from([250, 600, 900]).map(nested)


@st.composite
def nearly(draw: st.DrawFn, *examples: Any) -> Any:
    """One of the examples with up to three values replaced, each by any value or by one from another field."""
    body = copy.deepcopy(draw(st.sampled_from(examples)))
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(list(_places(body))))
        elsewhere = st.sampled_from([_at(example, place) for example in examples for place in _places(example)])
        body = _replaced(body, path, draw(REPLACEMENTS | elsewhere))
    return body


def _places(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of all values, including the root. Deeply nested ones are skipped."""
    yield path
    if len(path) < 8:
        for step in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            yield from _places(value[step], (*path, step))


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _replaced(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    changed = copy.copy(value)
    changed[path[0]] = _replaced(value[path[0]], path[1:], new)
    return changed
