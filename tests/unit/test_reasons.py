import pytest

from clawsite.infra import reasons
from clawsite.infra.reason_texts import translate_reason
from clawsite.infra.reasons import Reason


@pytest.fixture(autouse=True)
def example_codes(monkeypatch):
    monkeypatch.setattr(reasons, "_texts", dict(reasons._texts))
    reasons.register_reasons({"example.depth": "nested {depth} deep; at most {limit}", "example.source": "{source}: {rule}"})


def test_text_is_rendered_from_the_parameters():
    assert Reason("example.depth", depth=3, limit=2).text == "nested 3 deep; at most 2"


def test_stored_reason_is_read_back_with_nested_reasons():
    reason = Reason("example.source", source="profile", rule=Reason("example.depth", depth=3, limit=2))
    assert Reason.from_json(reason.to_json()) == reason
    assert reason.text == "profile: nested 3 deep; at most 2"


def test_text_stored_before_codes_existed_is_shown_as_it_is():
    assert Reason.from_json("allow entry {x}").text == "allow entry {x}"


def test_unknown_stored_code_is_shown_instead_of_failing():
    assert Reason.from_json({"code": "gone.code", "params": {"a": 1}}).text == "gone.code"


def test_reason_of_another_version_is_shown_without_its_missing_parameters():
    stored = Reason.from_json({"code": "example.depth", "params": {"depth": 3}})
    assert stored.text == "nested 3 deep; at most {limit}"
    assert translate_reason(stored) == "nested 3 deep; at most {limit}"
    assert Reason.from_json({"params": {}}).code == reasons.LEGACY


def test_unregistered_code_cannot_be_created():
    with pytest.raises(ValueError):
        Reason("example.unknown")


def test_code_cannot_get_a_second_text():
    with pytest.raises(ValueError):
        reasons.register_reasons({"example.depth": "another text"})
