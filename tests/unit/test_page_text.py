"""Detect the kind and character set of responses."""

import codecs

import pytest

from clawsite.infra.fetch.client import FetchResponse
from tools_app.builtin.web.page_text import decode_text, detect_kind, indent_json


def answer(body: bytes, content_type: str = "") -> FetchResponse:
    return FetchResponse("http://h/", 200, {"content-type": content_type} if content_type else {}, body)


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        ("text/html; charset=utf-8", "html"),
        ("application/xhtml+xml", "html"),
        ("application/json", "json"),
        ("application/ld+json", "json"),
        ("text/json", "json"),
        ("text/plain", "text"),
        ("text/csv", "text"),
        ("application/rss+xml", "text"),
        ("application/yaml", "text"),
        ("image/png", ""),
        ("image/svg+xml", "text"),
        ("application/pdf", ""),
        ("application/octet-stream", ""),
        ("application/zip", ""),
    ],
)
def test_kind_follows_content_type(content_type, kind):
    assert detect_kind(answer(b"x", content_type)) == kind


@pytest.mark.parametrize(
    ("body", "kind"),
    [(b" <!DOCTYPE html><p>", "html"), (b"<!-- x --><html>", "html"), (b"plain <b>", "text"), (b"\x7fELF\0\0", ""), (b"", "text")],
)
def test_kind_follows_body_without_content_type(body, kind):
    assert detect_kind(answer(body)) == kind


@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("grüß".encode(), "text/html", "grüß"),
        ("grüß".encode("latin-1"), "text/html; charset=ISO-8859-1", "grüß"),
        ("grüß".encode("latin-1"), "text/plain", "grüß"),
        ("“€”".encode("cp1252"), 'text/plain; charset="iso-8859-1"', "“€”"),
        ("<meta charset=gb2312>中文".encode("gbk"), "text/html", "<meta charset=gb2312>中文"),
        (
            "<?xml version='1.0' encoding='Shift_JIS'?>日本".encode("shift_jis"),
            "text/xml",
            "<?xml version='1.0' encoding='Shift_JIS'?>日本",
        ),
        ("中文".encode("big5"), "text/plain; charset=Big5", "中文"),
        (codecs.BOM_UTF16_LE + "中文".encode("utf-16-le"), "text/html; charset=iso-8859-1", "中文"),
        (codecs.BOM_UTF8 + b"x", "text/plain", "x"),
        ("中".encode("utf-16-le"), "text/plain; charset=utf-16", "中"),
        ("<meta charset=utf-16>ü".encode(), "text/html", "<meta charset=utf-16>ü"),
        (b"+ADw-script+AD4-", "text/html; charset=utf-7", "+ADw-script+AD4-"),
        (b"\\u003cx", "text/html; charset=unicode_escape", "\\u003cx"),
        ("ü".encode(), "text/html; charset=no-such-set", "ü"),
        (b"a\xffb", "text/plain; charset=utf-8", "a\ufffdb"),
        ("abc中".encode()[:-1], "text/plain", "abc"),
    ],
)
def test_character_set_is_detected(body, content_type, text):
    assert decode_text(answer(body, content_type)) == text


def test_json_is_indented_and_other_text_unchanged():
    assert indent_json('{"ä":[1,123456789012345678901]}') == '{\n  "ä": [\n    1,\n    123456789012345678901\n  ]\n}'
    for text in ('{"a":', "[" * 100_000, "1" * 5000, "NaN of sorts"):
        assert indent_json(text) == text
