import pytest

from clawsite.infra.errors import InvalidRequest
from sessions_app.keys import make_chat_key, make_main_key, parse_key


@pytest.mark.parametrize(
    ("text", "canonical", "kind"),
    [
        ("agent:main:main", "agent:main:main", "main"),
        ("main", "agent:main:main", "main"),
        ("AGENT:Main:MAIN", "agent:main:main", "main"),
        ("agent:ops:telegram:dm:12345", "agent:ops:telegram:dm:12345", "dm"),
        ("agent:ops:telegram:group:-100:thread:7", "agent:ops:telegram:group:-100:thread:7", "group"),
        ("agent:main:subagent:6f1c", "agent:main:subagent:6f1c", "subagent"),
        ("cron:nightly", "agent:main:cron:nightly", "cron"),
        ("hook:abc", "agent:main:hook:abc", "hook"),
        ("agent:main:My-Notes", "agent:main:My-Notes", "named"),
    ],
)
def test_session_key_is_normalized_to_one_form(text, canonical, kind):
    key = parse_key(text)
    assert (str(key), key.kind) == (canonical, kind)
    assert parse_key(str(key)) == key


@pytest.mark.parametrize(
    "text", ["", "agent:", "agent:main", "agent::x", "agent:main:", "agent:ma in:x", "agent:main:a b", "x\x00y", "k" * 513]
)
def test_invalid_session_key_is_rejected(text):
    with pytest.raises(InvalidRequest):
        parse_key(text)


def test_session_key_exposes_its_parts():
    key = parse_key("agent:ops:slack:group:C1:thread:99")
    assert (key.agent, key.channel, key.thread, key.is_subagent) == ("ops", "slack", "99", False)
    assert make_main_key("ops") == "agent:ops:main"


@pytest.mark.parametrize(
    ("key", "group"),
    [
        ("agent:ops:telegram:group:-100", "-100"),
        ("agent:ops:telegram:group:-100:thread:7", "-100"),
        ("agent:ops:matrix:group:!room:example.org", "!room:example.org"),
        ("agent:ops:matrix:group:!room:example.org:thread:$e", "!room:example.org"),
        ("agent:ops:telegram:dm:7", ""),
        ("agent:ops:main", ""),
    ],
)
def test_group_id_is_parsed_completely(key, group):
    assert parse_key(key).group == group


@pytest.mark.parametrize(
    ("chat", "key"),
    [
        ({"peer": "77"}, "agent:ops:telegram:dm:77"),
        ({"peer": "77", "thread": "5"}, "agent:ops:telegram:dm:77:thread:5"),
        ({"group": "-100", "peer": "77"}, "agent:ops:telegram:group:-100"),
        ({"group": "-100", "thread": "5"}, "agent:ops:telegram:group:-100:thread:5"),
        ({"group": "!Room:example.org"}, "agent:ops:telegram:group:!Room:example.org"),
    ],
)
def test_chat_has_its_own_session_key(chat, key):
    assert str(make_chat_key("ops", "telegram", **chat)) == key


@pytest.mark.parametrize(
    "chat",
    [{}, {"peer": "7 7"}, {"peer": "77:thread:5"}, {"group": "-100:thread:5"}, {"group": "Main"}, {"group": "a", "thread": "b:c"}],
)
def test_ids_that_name_another_chat_are_rejected(chat):
    with pytest.raises(InvalidRequest):
        make_chat_key("ops", "telegram", **chat)


@pytest.mark.parametrize("channel", ["hook", "cron", "subagent", "", "a:b"])
def test_chat_key_needs_a_channel(channel):
    with pytest.raises(InvalidRequest):
        make_chat_key("ops", channel, peer="77")
