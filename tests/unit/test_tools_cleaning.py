"""How a tool's result is processed before anyone reads it: cleaned, without secrets, and marked where it is cut."""

import base64
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawsite.infra.observability.redact import REPLACEMENT, host_secrets, redact, remove_secrets
from tools_app.core.cleaning import EDGE_CHARACTERS, MAX_IMAGE_BYTES, MAX_IMAGES, ResultLimits, clean_result, clean_text
from tools_app.core.definition import ImageBlock, TextBlock, ToolResult, text_result

LIMIT = 1000
LIMITS = ResultLimits(LIMIT)
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(24)).decode()
PICTURE = ImageBlock(PNG, "image/png")


def test_control_characters_are_removed_everywhere():
    dirty = ToolResult((TextBlock("a\0b\x1b[31m\tc\r\nd\re\x9b\udce9"),), {"na\0me": ["x\0", {"deep": "\x07"}], "n": 1})
    assert clean_result(dirty, LIMITS) == ToolResult((TextBlock("ab\tc\nd\ne\ufffd"),), {"name": ["x", {"deep": ""}], "n": 1})


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[38;5;196mred\x1b[m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://a.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bplain\x1b=", "plain"),
        ("\x1b[?25l\x1b[2K\x1b[1Gdone", "done"),
        ("\x9b31mred", "red"),
        ("\x1bPq#0;2\x1b\\after", "after"),
        ("\x1b]0;no end, and text", "0;no end, and text"),
        ("50%\rdone\r\n", "50%\ndone\n"),
        ("[31m is not an escape", "[31m is not an escape"),
    ],
)
def test_terminal_escape_sequences_are_removed_completely(text, left):
    assert clean_text(text) == left


@given(st.text())
def test_cleaned_text_is_stable_and_storable(text):
    cleaned = clean_text(text)
    cleaned.encode()
    assert clean_text(cleaned) == cleaned


def test_long_text_keeps_start_and_end_with_note():
    (block,) = clean_result(text_result("é" * LIMIT), LIMITS).content
    head, _, rest = block.text.partition("\n[cut: ")
    note, _, tail = rest.partition("]\n")
    assert note == "showing the first 700 and the last 300 of 2000 bytes"
    assert (head, tail) == ("é" * 350, "é" * 150)


def test_text_limit_spans_blocks_and_images_are_kept():
    blocks = (TextBlock("a" * 690), TextBlock("b" * 500), PICTURE, TextBlock("c" * 500), TextBlock("d" * 290))
    first, second, image, third, last = clean_result(ToolResult(blocks), LIMITS).content
    assert (first, image, last) == (blocks[0], PICTURE, blocks[4])
    assert second.text.startswith("b" * 10 + "\n[cut: showing the first")
    assert third.text == "c" * 10


def test_block_inside_truncated_part_is_removed():
    blocks = (TextBlock("a" * 800), TextBlock("gone"), TextBlock("c" * 800))
    assert len(clean_result(ToolResult(blocks), LIMITS).content) == 2


@given(st.lists(st.text(max_size=600), max_size=6), st.integers(50, 2000))
def test_only_results_over_limit_are_truncated(texts, limit):
    result = ToolResult(tuple(TextBlock(clean_text(text)) for text in texts))
    size = len("".join(block.text for block in result.content).encode())
    kept = clean_result(result, ResultLimits(limit)).content
    if size <= limit:
        assert kept == result.content
    else:
        assert sum(len(block.text.encode()) for block in kept) <= limit + 100  # 100 bytes for the note
        assert sum("[cut: showing" in block.text for block in kept) == 1


def test_huge_text_is_truncated_before_cleaning_with_note():
    shown = clean_result(text_result("\x1b[0m" * 1_000_000 + "\nthe end"), LIMITS).text
    assert "characters left out]" in shown
    assert shown.endswith("\nthe end")


@pytest.mark.parametrize("shift", range(0, 24, 3))
def test_truncation_leaves_no_partial_secret(shift):
    """The secret follows escape sequences that are mostly removed, so everything kept by the first cut is shown."""
    secret = "abcdefghijklmnopqrstuvwx"
    room = LIMIT + 2 * EDGE_CHARACTERS
    text = "\x1b[0m" * (room // 4 - 3) + " " * (12 - shift) + secret + "." * (3 * room)
    shown = clean_result(text_result(text), ResultLimits(LIMIT, [secret])).text
    assert not any(secret[start : start + 6] in shown for start in range(len(secret) - 5))


def test_huge_details_are_omitted():
    assert clean_result(text_result("ok", details={"all": "x" * LIMIT}), LIMITS).details.keys() == {"cut"}


def test_image_size_and_count_are_limited():
    large = ImageBlock("A" * (MAX_IMAGE_BYTES // 3 * 4 + 8), "image/png")
    result = clean_result(ToolResult((large, *[PICTURE] * MAX_IMAGES)), LIMITS)
    assert "left out: the limit is 5242880 bytes" in result.content[0].text
    assert "left out: a result can have at most 10" in result.content[-1].text
    assert list(result.content[1:-1]) == [PICTURE] * (MAX_IMAGES - 1)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("token claw_0a1b2c3d_" + "x" * 43, f"token {REPLACEMENT}"),
        ("sk-proj-abcDEF1234567890abcd", REPLACEMENT),
        ("ghp_0123456789abcdefghij", REPLACEMENT),
        ("password = os.environ['PASSWORD']", "password = os.environ['PASSWORD']"),
        ("token: str = Field(description='x')", "token: str = Field(description='x')"),
        ("class='pk-button-primary-large-outline'", "class='pk-button-primary-large-outline'"),
    ],
)
def test_credentials_are_removed_and_source_code_is_kept(text, left):
    assert remove_secrets(text) == left


def test_logs_are_redacted_more_strictly_than_results():
    assert redact("password = correcthorse") == f"password = {REPLACEMENT}"
    assert redact("api_key=sk-proj-abcDEF1234567890abcd") == f"api_key={REPLACEMENT}"


def test_secrets_are_detected_by_environment_variable_name():
    environ = {
        "OPENAI_API_KEY": "0123456789",
        "SLACK_TOKEN": "tok-tok-tok",
        "DB_PASSWORD": "short",
        "REDIS_URL": "redis://:the%20password@db:6379/0",
        "HOME_URL": "http://a.example/",
        "SSH_KEY": "/home/me/.ssh/id",
        "PATH": "/usr/bin:/bin-of-mine",
    }
    assert host_secrets(["named-one", "no"], environ) == ("the password", "tok-tok-tok", "0123456789", "named-one")


@pytest.mark.parametrize("data", ["abc", "aGk=", "", "not base64!"])
def test_invalid_image_is_replaced_with_note(data):
    (block,) = clean_result(ToolResult((ImageBlock(data, "image/png"),)), LIMITS).content
    assert "image left out" in block.text


def test_image_type_is_detected_from_bytes():
    (block,) = clean_result(ToolResult((ImageBlock(PNG, "image/jpeg"),)), LIMITS).content
    assert block.mime_type == "image/png"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("details", [{"balance": 2**256 - 1}, {"deep": nested(300)}, {"when": object()}, {"n": [-(2**70)]}])
def test_details_are_always_json_serializable(details):
    assert orjson.dumps(clean_result(ToolResult((TextBlock("x"),), details), LIMITS).details)
