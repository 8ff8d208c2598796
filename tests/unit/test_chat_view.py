"""The chat events of a run: first text immediately, the rest throttled, everything before the end."""

from clawsite.gateway.protocol.events.chat import DELTA_INTERVAL_SECONDS, FLUSH_DELAY_SECONDS, ChatEventBuilder
from tests.unit.gateway_fakes import Log


def text_of(payload):
    return "".join(block["text"] for block in payload["message"]["content"])


def test_first_delta_is_immediate_and_later_ones_paced():
    log, view = Log(), ChatEventBuilder("run-7")
    accepted, start, one, two, three, *_ = log.run("one two three")
    assert view.feed(accepted, 0.0) == view.feed(start, 0.0) == []
    [first] = view.feed(one, 10.0)
    assert (first["state"], first["deltaText"], text_of(first), first["seq"]) == ("delta", "one", "one", 3)
    assert view.feed(two, 10.01) == []
    assert view.feed(three, 10.02) == []
    assert view.due == 10.0 + DELTA_INTERVAL_SECONDS + FLUSH_DELAY_SECONDS
    [paced] = view.flush(view.due)
    assert (paced["deltaText"], text_of(paced), paced["seq"]) == (" two three", "one two three", 5)
    assert view.due is None


def test_first_event_after_the_interval_sends_the_newest_text():
    log, view = Log(), ChatEventBuilder("run-7")
    _accepted, _start, one, two, three, *_ = log.run("one two three")
    view.feed(one, 10.0)
    assert view.feed(two, 10.0 + DELTA_INTERVAL_SECONDS - 0.01) == []
    [delta] = view.feed(three, 10.0 + DELTA_INTERVAL_SECONDS)
    assert delta["deltaText"] == " two three"
    assert view.due is None


def test_pending_text_is_flushed_before_final():
    log, view = Log(), ChatEventBuilder("run-7")
    told = [payload for event in log.run("a b c d") for payload in view.feed(event, 5.0)]
    assert [payload["state"] for payload in told] == ["delta", "delta", "final"]
    assert "".join(payload.get("deltaText", "") for payload in told) == "a b c d"
    assert text_of(told[-1]) == "a b c d"
    assert told[-1]["usage"] == {"input": 1}
    assert view.ended


def test_new_attempt_replaces_shown_text():
    log, view = Log(), ChatEventBuilder("run-7")
    log.add("lifecycle", phase="accepted", prompt="hi")
    view.feed(log.add("assistant", messageId="m", attempt=1, delta="wrong", offset=0), 0.0)
    [emptied] = view.feed(log.add("assistant", messageId="m", attempt=2, reset=True), 1.0)
    assert (emptied["replace"], emptied["deltaText"], text_of(emptied)) == (True, "", "")
    [again] = view.feed(log.add("assistant", messageId="m", attempt=2, delta="right", offset=0), 2.0)
    assert "replace" not in again
    assert text_of(again) == "right"


def test_second_message_of_run_replaces_the_first():
    log, view = Log(), ChatEventBuilder("run-7")
    view.feed(log.add("assistant", messageId="m1", attempt=1, delta="let me look", offset=0), 0.0)
    [second] = view.feed(log.add("assistant", messageId="m2", attempt=1, delta="done", offset=0), 1.0)
    assert (second["replace"], text_of(second)) == (True, "done")


def test_aborted_run_keeps_its_partial_text():
    log, view = Log(), ChatEventBuilder("run-7")
    view.feed(log.add("assistant", messageId="m", attempt=1, delta="half a", offset=0), 0.0)
    [aborted] = view.feed(log.add("lifecycle", phase="end", aborted=True, stopReason="rpc", endedAt=1), 0.5)
    assert (aborted["state"], aborted["stopReason"], text_of(aborted)) == ("aborted", "rpc", "half a")


def test_error_event_includes_its_kind():
    log, view = Log(), ChatEventBuilder("run-7")
    [error] = view.feed(log.add("lifecycle", phase="error", error="too long", kind="context_overflow", endedAt=1), 0.0)
    assert (error["state"], error["errorMessage"], error["errorKind"]) == ("error", "too long", "context_length")


def test_long_text_is_sent_less_often():
    log, view = Log(), ChatEventBuilder("run-7")
    view.feed(log.add("assistant", messageId="m", attempt=1, delta="x" * 1_000_000, offset=0), 0.0)
    view.feed(log.add("assistant", messageId="m", attempt=1, delta="y", offset=1_000_000), 1.0)
    assert view.due > 3.0


def test_view_joined_mid_run_includes_earlier_text():
    log, view = Log(), ChatEventBuilder("run-7")
    *earlier, last_delta, _final, _end = log.run("one two three")
    for event in earlier:
        view.catch_up(event)
    [delta] = view.feed(last_delta, 100.0)
    assert (delta["deltaText"], text_of(delta)) == (" three", "one two three")
