"""The stored form of run requests: old rows stay readable, and a request sent again after an upgrade finds its first run."""

from uuid import UUID

import orjson
import pytest

from sessions_app.origin import Origin, Sender, TokenLimits
from sessions_app.run_request import (
    UNREADABLE_REQUEST,
    Compaction,
    Invocation,
    NestedMessage,
    Prompt,
    RunRequest,
    ToolResults,
    Wake,
)
from sessions_app.runs.lifecycle import _hash_request

SESSION = UUID("11111111-2222-3333-4444-555555555555")
BLOCK = {"type": "file", "attachmentId": "a1", "mimeType": "text/plain", "name": "a.txt", "size": 3, "sha256": "ff"}
TOOL = {"name": "f", "description": "d", "parameters": {"type": "object"}}
TRACE = "00-abc-def-01"
THROUGH = (("main", "s1"), ("other", "s2"))

# What earlier versions stored, the request it is, and the hash that they computed with the prompt "hi" in lane main.
STORED = {
    "plain": ({}, RunRequest(), "40f1268dd270b67ab4a157adb1e1771d40f1cafa80595a0d12f933d112fd554c"),
    "trace": (
        {"traceparent": TRACE},
        RunRequest(traceparent=TRACE),
        "40f1268dd270b67ab4a157adb1e1771d40f1cafa80595a0d12f933d112fd554c",
    ),
    "settings": (
        {
            "model": "openai/gpt-5",
            "thinking": "low",
            "extraSystemPrompt": "Be short.",
            "parameters": {"temperature": 0.5, "stop": ["x"]},
        },
        RunRequest(
            model="openai/gpt-5", thinking="low", extra_system_prompt="Be short.", parameters={"temperature": 0.5, "stop": ["x"]}
        ),
        "8e807163b413b2c905043f7f3d1e91a6c03dc1241ee978fcd00df167cd8511bc",
    ),
    "replacement": (
        {"replaces": "m1", "model": "openai/gpt-5"},
        RunRequest(Prompt("m1"), model="openai/gpt-5"),
        "3f5cc41967d895214b61f0812d268e58303dba3880f53b3d59fa211502294ecb",
    ),
    "attachments": (
        {"attachments": [BLOCK]},
        RunRequest(attachments=(BLOCK,)),
        "794d5627cc556a452f8493e0f948eee4528c58f80007ee6349dffdba582b6524",
    ),
    "client tools": (
        {"clientTools": [TOOL]},
        RunRequest(client_tools=(TOOL,)),
        "00c7c6b11031281b67e140d22358203eed016a3abe2a4782c5382a5b2017c03d",
    ),
    "tool results": (
        {"toolResults": [{"callId": "c1", "text": "42"}]},
        RunRequest(ToolResults(({"callId": "c1", "text": "42"},))),
        "fb81f31711fd0ccd9576f9ceae543f0bd07aef4dff332eeeb72007d8732718e6",
    ),
    "compaction": (
        {"compact": {"words": "the names"}},
        RunRequest(Compaction("the names")),
        "c84fd56a1b7ee7413a14bb3b338461511365b1b2cedd072fa4b8a864ef022d0e",
    ),
    "compaction to lines": (
        {"compact": {"words": "", "maxLines": 40}},
        RunRequest(Compaction(max_lines=40)),
        "5a1ef9d9f7e9f38eaafc1b6074b9068077d2f804b92ad098c049d932e0265f3a",
    ),
    "invocation": (
        {"invoke": {"name": "read", "args": {"path": "a.txt"}}},
        RunRequest(Invocation("read", {"path": "a.txt"})),
        "b3cdc12f44efddd8195992a360794a61b8c1bb533d49bf41592339ea8130e97c",
    ),
    "webhook": (
        {"hook": "news", "thinking": "low"},
        RunRequest(origin=Origin(webhook="news"), thinking="low"),
        "170a629eaf3b0bf2a3d1c98e077844a3f1637cd790124dabfd3d781121ad2416",
    ),
    "nested message": (
        {
            "sentBy": {"run": 7, "call": "c1", "waits": True, "depth": 2, "through": [["main", "s1"], ["other", "s2"]]},
            "traceparent": TRACE,
            "hook": "news",
            "keyLimits": {"name": "abc", "allow": ["read"], "deny": []},
        },
        RunRequest(
            NestedMessage(7, "c1", waits=True, depth=2),
            Origin(webhook="news", through=THROUGH),
            TokenLimits("abc", ("read",)),
            traceparent=TRACE,
        ),
        "f5e372a1153634937dd11d6e4b454057119d540e6e1fd01d64c6dfaebda580cb",
    ),
}
TELEGRAM = Origin(
    channel="telegram", account="bot", group="-100", thread="5", sender=Sender(id="77", username="@anna"), reply_to="-100/5"
)
NEW = {
    "wake": RunRequest(Wake()),
    "message from a channel": RunRequest(origin=TELEGRAM),
    "direct chat": RunRequest(origin=Origin(channel="signal", peer="+49", sender=Sender(e164="+49", name="Anna"))),
    "message without a run": RunRequest(NestedMessage(None, "c1"), Origin(through=THROUGH)),
    "forwarded request of another kind": RunRequest(Wake(), Origin(through=THROUGH)),
}


@pytest.mark.parametrize(("stored", "request_", "digest"), STORED.values(), ids=STORED)
def test_stored_requests_of_earlier_versions_keep_their_meaning_and_hash(stored, request_, digest):
    assert RunRequest.from_json(stored) == request_
    assert as_stored(request_) == stored
    assert _hash_request(SESSION, "hi", request_, "main") == digest


@pytest.mark.parametrize("request_", NEW.values(), ids=NEW)
def test_requests_are_read_as_they_were_stored(request_):
    assert RunRequest.from_json(as_stored(request_)) == request_


def test_unknown_stored_keys_are_ignored():
    assert RunRequest.from_json({"laterVersion": {"x": 1}, "sender": {"id": "7", "pronouns": "they"}}) == RunRequest(
        origin=Origin(sender=Sender(id="7"))
    )


def test_redelivered_message_is_the_same_request_although_its_sender_was_renamed():
    renamed = RunRequest(origin=Origin(channel="telegram", sender=Sender(id="77", name="Anna B.")))
    assert _hash_request(SESSION, "hi", renamed, "main") == _hash_request(SESSION, "hi", RunRequest(origin=TELEGRAM), "main")


def as_stored(request_: RunRequest) -> object:
    return orjson.loads(orjson.dumps(request_.to_json()))


@pytest.mark.parametrize(
    "stored", [{"invoke": {}}, {"compact": True}, {"keyLimits": {"name": "abc"}}, {"sentBy": None}, {"origin": 1}]
)
def test_damaged_request_is_unreadable_instead_of_a_prompt_without_limits(stored):
    assert RunRequest.from_json(stored) is UNREADABLE_REQUEST
