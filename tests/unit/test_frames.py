"""Frames: which texts are parsed as requests, and how responses are encoded."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawsite.gateway.protocol.frames import BadFrame, choose_protocol, encode_event, encode_failure, encode_success, parse_request


def test_request_is_parsed_with_optional_properties():
    request = parse_request('{"type":"req","id":"1","method":"agent","params":{"a":1},"idempotencyKey":"k","traceparent":"x"}')
    assert (request.id, request.method, request.params, request.idempotency_key) == ("1", "agent", {"a": 1}, "k")


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("", "invalid"),
        ("{", "invalid"),
        ("[]", "invalid"),
        ("null", "invalid"),
        ('{"type":"req"}', "invalid"),
        ('{"type":"req","id":5,"method":"x"}', "invalid"),
        ('{"type":"req","id":"","method":"x"}', "invalid"),
        ('{"type":"req","id":"a","method":""}', "a"),
        ('{"type":"req","id":"a","method":"x","params":[]}', "a"),
        ('{"type":"res","id":"a","method":"x"}', "a"),
        ('{"type":"req","id":"a","method":"x","params":{"n":NaN}}', "invalid"),
        ("[" * 100_000, "invalid"),
    ],
)
def test_invalid_request_is_refused_with_its_id(text, id):
    with pytest.raises(BadFrame) as bad:
        parse_request(text)
    assert bad.value.id == id
    assert bad.value.message.startswith("invalid frame")


def test_error_message_never_repeats_the_request():
    with pytest.raises(BadFrame) as bad:
        parse_request('{"type":"req","id":"a","method":"x","params":"secret-token"}')
    assert "secret-token" not in bad.value.message


@pytest.mark.parametrize(
    ("lowest", "highest", "chosen"),
    [
        (1, 1, 1),
        (3, 3, 3),
        (4, 4, 4),
        (1, 4, 4),
        (3, 4, 4),
        (1, 2, 1),
        (2, 3, 3),
        (2, 2, None),
        (5, 9, None),
        (4, 9, 4),
        (4, 1, None),
    ],
)
def test_newest_common_protocol_is_chosen(lowest, highest, chosen):
    assert choose_protocol(lowest, highest) == chosen


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), children, max_size=4)
    ),
    max_leaves=12,
)


@given(payload=JSON, seq=st.integers(1, 10**9), version=st.none() | st.integers(0, 10**6))
def test_event_encoded_in_halves_equals_whole_event(payload, seq, version):
    encoded = encode_event("agent", payload, state_version=version)
    text = encoded.with_seq(seq)
    expected = {"type": "event", "event": "agent", "seq": seq, "payload": payload}
    if version is not None:
        expected["stateVersion"] = version
    assert json.loads(text) == expected
    assert len(text.encode()) <= encoded.size


def test_response_has_only_properties_of_the_schema():
    assert json.loads(encode_success("1", {"a": 1})) == {"type": "res", "id": "1", "ok": True, "payload": {"a": 1}}
    failure = json.loads(encode_failure("1", {"code": "CONFLICT", "message": "m"}, {"status": "error"}))
    assert failure == {
        "type": "res",
        "id": "1",
        "ok": False,
        "error": {"code": "CONFLICT", "message": "m"},
        "payload": {"status": "error"},
    }
