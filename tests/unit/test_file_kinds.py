"""File types are detected from the bytes, and names are only names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.sessions.file_types import (
    MAX_NAME_LENGTH,
    clean_file_name,
    clean_mime_type,
    declared_image_type,
    decode_text,
    detect_image_type,
    format_size,
)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"GIF89a\1\0", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x24\0\0\0WAVE", ""),
        (b"<svg xmlns='http://www.w3.org/2000/svg'>", ""),
        (b"BM", ""),
        (b"", ""),
    ],
)
def test_image_type_is_detected_from_leading_bytes(head: bytes, kind: str) -> None:
    assert detect_image_type(head) == kind


def test_declared_mime_type_is_normalized() -> None:
    assert declared_image_type("a.PNG", "") == declared_image_type("a", "image/png; charset=x") == "image/png"
    assert declared_image_type("a.svg", "image/svg+xml") == ""
    assert clean_mime_type("Text/Plain; charset=utf-8") == "text/plain"
    assert (
        clean_mime_type("text/html\r\nX-Evil: 1")
        == clean_mime_type("image/png")
        == clean_mime_type("")
        == "application/octet-stream"
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("report.csv", "report.csv"),
        ("年度报告 2026.pdf", "年度报告 2026.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\x.txt", "x.txt"),
        (".bashrc", "bashrc"),
        ("-rf", "rf"),
        ("~root", "root"),
        ("a\r\nX-Evil: 1.txt", "aX-Evil_ 1.txt"),
        ("a\0b.txt", "ab.txt"),
        ("evil‮gnp.exe", "evilgnp.exe"),
        ('a"; filename="b.html', "a__ filename=_b.html"),
        ("$(rm x)`y`.sh", "_(rm x)_y_.sh"),
        ("...", "file"),
        ("", "file"),
        ("a.txt. .", "a.txt"),
    ],
)
def test_file_name_is_stripped_of_its_path(given: str, name: str) -> None:
    assert clean_file_name(given) == name


@given(st.text(max_size=400))
def test_cleaned_file_name_is_valid_in_any_directory(given: str) -> None:
    name = clean_file_name(given)
    assert 0 < len(name.encode()) <= MAX_NAME_LENGTH
    assert not {"/", "\\", "\0", "\n", '"'} & set(name)
    assert name.isprintable() and name[0] not in ".-~ "
    assert clean_file_name(name) == name


def test_long_file_name_keeps_its_extension() -> None:
    assert clean_file_name("长" * 200 + ".tar.gz").endswith("长.tar.gz") or clean_file_name("长" * 200 + ".gz").endswith("长.gz")


def test_only_utf_8_is_decoded_as_text() -> None:
    assert decode_text("grüß 你好".encode()) == "grüß 你好"
    assert decode_text(b"\xef\xbb\xbfx") == "x"
    assert decode_text(b"\xff\xfe") is None
    assert decode_text(b"a\0b") is None


@pytest.mark.parametrize(("size", "words"), [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KB"), (20 << 20, "20 MB")])
def test_size_is_formatted_for_humans(size: int, words: str) -> None:
    assert format_size(size) == words
