"""A model that repeats itself is warned, then denied; one that makes progress is not affected."""

import pytest

from tools_app.loop_guard import (
    CODE,
    DENY_AFTER_REPEATS,
    NOTE_PREFIX,
    POLLING_FACTOR,
    WARN_AFTER_REPEATS,
    CompletedCall,
    build_loop_denial,
    check_repetition,
    to_pending_call,
)

A, B = {"path": "a"}, {"path": "b"}


def read(arguments, text="same", **more):
    return CompletedCall("read", arguments, text, **more)


def verdict(steps, arguments=A, **options):
    opinion = check_repetition("read", arguments, steps, **options)
    return "refuse" if opinion.deny else "warn" if opinion.note else "go"


@pytest.mark.parametrize(
    ("times", "expected"),
    [(0, "go"), (2, "go"), (WARN_AFTER_REPEATS, "warn"), (4, "warn"), (DENY_AFTER_REPEATS, "refuse"), (50, "refuse")],
)
def test_repeated_call_is_warned_then_denied(times, expected):
    assert verdict([read(A)] * times) == expected


def test_argument_order_does_not_matter():
    assert verdict([CompletedCall("read", {"x": 1, "path": "a"}, "same")] * 5, {"path": "a", "x": 1}) == "refuse"


@pytest.mark.parametrize(
    "steps",
    [
        [read(A, str(n)) for n in range(9)],  # a different result each time
        [read({"path": str(n)}) for n in range(9)],  # a different call each time
        [CompletedCall("write", A, "same")] * 9,
        [step for n in range(9) for step in (read(A), CompletedCall("edit", {"n": n}, "changed"))],  # progress in between
        [read(A)] * 5 + [read(B), read({"path": "c"})],  # the model moved on to other calls
        [read(A, "one")] * 5 + [read(A, "two")],  # the result changed
    ],
    ids=["results", "calls", "tools", "progress", "elsewhere", "news"],
)
def test_progress_is_not_a_loop(steps):
    assert verdict(steps) == "go"


@pytest.mark.parametrize(("rounds", "expected"), [(2, "go"), (3, "warn"), (5, "refuse")])
def test_alternating_calls_are_a_loop(rounds, expected):
    assert verdict([read(A), read(B)] * rounds) == expected
    assert verdict([read(A), read(B)] * rounds, B) == expected


def test_guard_notes_do_not_hide_a_loop():
    warned = [read(A, f"same\n{NOTE_PREFIX}the {n} calls before …]") for n in (3, 4)]
    refused = read(A, f"{CODE}: …", is_error=True)
    assert verdict([read(A)] * 3 + warned) == "refuse"
    assert verdict([read(A)] * 3 + warned + [refused] * 4) == "refuse"


def test_failure_and_result_with_same_text_differ():
    assert verdict([read(A), read(A, is_error=True)] * 2 + [read(A)]) == "warn"
    assert verdict([read(A)] * 4 + [read(A, is_error=True)]) == "go"


def test_polling_tools_allow_more_repeats():
    assert verdict([read(A)] * DENY_AFTER_REPEATS, polls=True) == "go"
    assert verdict([read(A)] * WARN_AFTER_REPEATS * POLLING_FACTOR, polls=True) == "warn"
    assert verdict([read(A)] * DENY_AFTER_REPEATS * POLLING_FACTOR, polls=True) == "refuse"


def test_loop_denial_reports_the_repeat_count():
    result = build_loop_denial("read", check_repetition("read", A, [read(A)] * 6))
    assert result.is_error
    assert result.details == {"code": "loop_detected", "repeats": 6}
    assert result.text.startswith("loop_detected: `read` was called 6 times")


@pytest.mark.parametrize("before", [[], [read(A)], [read(A, "it failed", is_error=True)]], ids=["first", "again", "failed before"])
def test_calls_of_one_turn_count_before_their_results(before):
    steps = list(before)
    while verdict(steps) != "refuse":
        steps.append(to_pending_call("read", A, steps))
    assert len(steps) == DENY_AFTER_REPEATS


def test_different_calls_of_one_turn_are_not_a_loop():
    steps = []
    for number in range(9):
        for arguments in (A, {"path": str(number)}):
            assert verdict(steps, arguments) == "go"
            steps.append(to_pending_call("read", arguments, steps))


def test_loop_denial_is_not_counted_as_result():
    assert to_pending_call("read", A, [read(A), read(A, f"{CODE}: …", is_error=True)]) == read(A)
