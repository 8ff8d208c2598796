"""Results created from values: JSON as text and as data, images with the type of their bytes."""

import base64
import json
from decimal import Decimal
from pathlib import Path

import pytest

from tools_app.core.definition import ImageBlock, ToolFailed
from tools_app.core.results import MAX_IMAGE_SIDE, image_result, image_result_from_bytes, json_result

GIF = b"GIF89a" + (7).to_bytes(2, "little") + (5).to_bytes(2, "little") + b"\0\0\0"


def test_json_result_has_text_and_details():
    result = json_result({"name": "Grüße", "n": 1})
    assert result.text == '{"name":"Grüße","n":1}'
    assert result.details == {"name": "Grüße", "n": 1}


def test_non_json_values_are_converted_to_strings():
    result = json_result({"path": Path("/a"), "sum": Decimal("1.5"), "large": 2**70, "broken": "\ud800", 7: "key"})
    assert result.details == {"path": "/a", "sum": "1.5", "large": 2**70, "broken": "\ud800", "7": "key"}
    assert json.loads(result.text) == result.details


def test_image_type_is_detected_from_bytes():
    for result in (
        image_result_from_bytes(GIF, name="cat.png", details={"path": "x"}),
        image_result(base64.b64encode(GIF).decode(), name="cat.png", details={"path": "x"}),
    ):
        assert result.text == "cat.png: image/gif, 7 x 5 pixels, 13 bytes"
        assert result.details == {"mimeType": "image/gif", "width": 7, "height": 5, "bytes": 13, "path": "x"}
        assert result.content[1] == ImageBlock(base64.b64encode(GIF).decode(), "image/gif", "cat.png")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<svg/>", "not a PNG"),
        (b"", "not a PNG"),
        (b"GIF89a", "damaged"),
        (b"\xff\xd8\xff\xe0", "damaged"),
        (b"RIFF\0\0\0\0WEBP", "damaged"),
        (GIF[:6] + (MAX_IMAGE_SIDE + 1).to_bytes(2, "little") + GIF[8:], "8001 x 5 pixels"),
        (GIF + b"\0" * (5 << 20), "limit is 5.0 MB"),
    ],
)
def test_non_image_bytes_are_rejected_with_reason(content, words):
    with pytest.raises(ToolFailed, match=words):
        image_result_from_bytes(content)


@pytest.mark.parametrize("data", ["no base64!", "÷"])
def test_invalid_base64_is_reported(data):
    with pytest.raises(ToolFailed, match="not valid base64"):
        image_result(data)
