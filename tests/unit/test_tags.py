"""Thinking written as text is separated from the answer, wherever the stream is cut."""

from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agents.llm.thinking_tags import TagFilter


def filtered(*deltas: str) -> tuple[str, str]:
    tags = TagFilter()
    parts = [tags.feed(delta) for delta in deltas] + [tags.flush()]
    return "".join(visible for visible, _ in parts), "".join(thinking for _, thinking in parts)


@pytest.mark.parametrize(
    ("text", "visible", "thinking"),
    [
        ("plain words", "plain words", ""),
        ("Let me <think>see</think> now.", "Let me  now.", "see"),
        ("<think>a</think>b<think>c</think>d", "bd", "ac"),
        ("<thinking>a</thinking>b", "b", "a"),
        ("<thought>a</thought>b", "b", "a"),
        ("<antthinking>a</antthinking>b", "b", "a"),
        ("<THINK>a</Think>b", "b", "a"),
        ("< think >a< / think >b", "b", "a"),
        ("<think>a</thinking>b", "b", "a"),
        ("<final>the answer</final>", "the answer", ""),
        ("<think>a</think><final>b</final>", "b", "a"),
        ("<think>never closed", "", "never closed"),
        ("<think>half a tag</thi", "", "half a tag</thi"),
        ("no opening</think> tag", "no opening tag", ""),
        ("<think>a<think>b</think>c", "c", "ab"),
        ("<think>see <final> there</think>x", "x", "see <final> there"),
        ("a < b and c <d> e", "a < b and c <d> e", ""),
        ("<thin> <thinker> <finale>", "<thin> <thinker> <finale>", ""),
        ("<<think>a</think>", "<", "a"),
        ("ends with <thi", "ends with <thi", ""),
        ("<think about it> is prose", "<think about it> is prose", ""),
        ("<think>\nhm\n</think>\n\nThe answer", "The answer", "\nhm\n"),
        ("  indented", "  indented", ""),
        ("one <think>a</think>\n\ntwo", "one \n\ntwo", "a"),
    ],
)
def test_tags_are_removed_from_text(text: str, visible: str, thinking: str) -> None:
    assert filtered(text) == (visible, thinking)


@pytest.mark.parametrize(
    "text",
    [
        "the tag `<think>` opens it",
        "``a ` <think> b`` end",
        "```\n<think>\nx\n</think>\n```\n",
        "```html\n<final>x</final>\n```",
        "  ```\n<think>\n  ```",
        "> ```\n> <think>\n> ```",
        "~~~\n<think>\n```\n<think>\n~~~\n",
        "````\n```\n<think>\n```\n````\n",
        "```\n<think>\n``` not a closing line\n<think>\n```\n",
        "```inline``` and `<think>`",
    ],
)
def test_tags_inside_code_are_kept(text: str) -> None:
    assert filtered(text) == (text, "")


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        ("`code`<think>a</think>b", "`code`b"),
        ("```\ncode\n```\n<think>a</think>b", "```\ncode\n```\nb"),
        ("```\ncode\n```  \n<think>a</think>b", "```\ncode\n```  \nb"),
        ("~~~\ncode\n~~~~\n<think>a</think>b", "~~~\ncode\n~~~~\nb"),
        ("```all on one line``` <think>a</think>b", "```all on one line``` b"),
        ("a single ` backtick\n<think>a</think>b", "a single ` backtick\nb"),
        ("about ~5 <think>a</think>b", "about ~5 b"),
    ],
)
def test_tags_after_code_are_removed(text: str, visible: str) -> None:
    assert filtered(text) == (visible, "a")


def test_unclosed_backtick_in_thinking_does_not_hide_answer() -> None:
    assert filtered("<think>the ` character and ```\ncode</think>answer") == ("answer", "the ` character and ```\ncode")


def test_text_is_emitted_once_it_cannot_be_tag() -> None:
    tags = TagFilter()
    assert tags.feed("a <") == ("a ", "")
    assert tags.feed("th") == ("", "")
    assert tags.feed("e") == ("<the", "")


PIECES = st.sampled_from(
    [
        *("<think>", "</think>", "<final>", "</final>", "<THOUGHT >", "</ thinking>", "<", ">", "/", "<th", "a<b"),
        *("`", "``", "```", "~~~", "~", "```py\n", "\n```\n", "\n", "\n\n", "\r\n", " ", "\t", "> ", "word", "é", "好"),
    ]
)
TEXTS = st.lists(PIECES, max_size=20).map("".join)


@settings(max_examples=400, deadline=None)
@given(text=TEXTS, data=st.data())
@example(text="x\n ```\n<think>\n```\n<think>a", data=None)
def test_result_does_not_depend_on_chunking(text: str, data: st.DataObject | None) -> None:
    whole = filtered(text)
    assert filtered(*text) == whole
    if data is not None:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
        edges = [0, *cuts, len(text)]
        assert filtered(*(text[start:end] for start, end in pairwise(edges))) == whole


@settings(deadline=None)
@given(text=st.text())
def test_text_without_tags_passes_unchanged(text: str) -> None:
    harmless = text.replace("<", "")
    assert filtered(*harmless) == (harmless, "") == filtered(harmless)


def test_long_plain_first_delta_is_not_read_by_character(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, step = [], TagFilter._step
    monkeypatch.setattr(TagFilter, "_step", lambda self, *args: steps.append(args) or step(self, *args))
    text = "  " + "word " * 1000
    assert filtered(text) == (text, "")
    assert len(steps) == 3


@pytest.mark.parametrize("first", ["<think>", " <", "`", "~~~\n", "\n\n<final>"])
def test_long_first_delta_that_starts_with_a_special_character(first: str) -> None:
    text = first + "x" * 5000
    assert filtered(text) == filtered(*text)
