"""Bounded JSON: the counted values are those that the parser would create, wherever the pieces are cut."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawsite.infra import bounded_json
from clawsite.infra.bounded_json import count_values, read_json
from clawsite.infra.errors import InvalidRequest

WORDS = st.text(st.sampled_from('a,[{]}"\\\n:é\u4e2d'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=30,
)


@pytest.mark.parametrize("shape", ["[{}]", '{{"a":{}}}'])
def test_json_nested_too_deeply_to_serialize_is_rejected(shape):
    def nested(levels: int) -> bytes:
        text = "1"
        for _ in range(levels):
            text = shape.format(text)
        return text.encode()

    assert orjson.dumps({"kept": [read_json(nested(bounded_json.MAX_DEPTH - 1), 10_000)]})
    with pytest.raises(InvalidRequest, match="too deeply"):
        read_json(nested(bounded_json.MAX_DEPTH), 10_000)


def size(value) -> int:
    """Return how often a value starts after a comma or bracket."""
    inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(0, len(inside) - 1) + sum(map(size, inside))


@given(value=VALUES, step=st.integers(1, 20))
def test_values_are_counted_exactly(value, step):
    before, bounded_json.CHUNK_BYTES = bounded_json.CHUNK_BYTES, step
    try:
        body, count = orjson.dumps(value), 1 + size(value)
        assert count_values(body, count) == count
        assert count_values(body, count - 1) > count - 1
    finally:
        bounded_json.CHUNK_BYTES = before


@pytest.mark.parametrize("body", [b"[" + b"0," * 100 + b"0]", b"[" * 101 + b"]" * 101, b'["' + b'"' * 500 + b'"]'])
def test_body_over_the_value_limit_is_rejected_before_parsing(body, monkeypatch):
    monkeypatch.delattr(bounded_json, "orjson")
    with pytest.raises(InvalidRequest, match="exceeds the limit of 100 values"):
        read_json(body, 100)


def test_deeply_nested_json_raises_invalid_request():
    with pytest.raises(InvalidRequest, match="nested"):
        read_json(b"[" * 1000 + b"]" * 1000, 5000)


def test_invalid_json_raises_the_parser_error():
    with pytest.raises(orjson.JSONDecodeError):
        read_json(b'{"a": ' + b"x" * 200, 100)
    assert read_json(b'["a\\u0000b"]', 100) == ["ab"]
