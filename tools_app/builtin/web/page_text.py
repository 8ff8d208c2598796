"""Detect the kind and character set of a response and decode it. Makes no network requests."""

import codecs
import json
import re

from clawsite.infra.fetch.client import FetchResponse

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
TEXT_TYPES = frozenset(
    {"xml", "javascript", "ecmascript", "x-javascript", "yaml", "x-yaml", "toml", "sql", "graphql", "x-sh", "ndjson"}
)
MAX_INDENTED = 1_000_000  # characters; takes about 0.1 s, during which the interpreter is blocked
PROBE_BYTES = 8192  # a NUL among these means binary, as in the file tools
DECLARED_CHARSET = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})|<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})""", re.I
)
MAX_DECLARATION_BYTES = 2048  # browsers read the first 1024
BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Only character sets used on the web: Python has more codecs, and some are not for text (utf-7, unicode_escape, idna).
WEB_CODECS = re.compile(
    r"utf-8|utf-16(-[bl]e)?|ascii|iso8859-\d+|cp125\d|cp866|cp874|koi8-[ru]|gb2312|gbk|gb18030|big5(hkscs)?|euc_jp|euc_kr"
    r"|cp932|cp949|shift_jis|iso2022_jp|mac-(roman|cyrillic)|tis-620"
)
# Browsers treat these labels as the larger character set.
CODEC_ALIASES = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "tis-620": "cp874",
    "utf-16": "utf-16-le",
}


def detect_kind(response: FetchResponse) -> str:
    """Return html, json, text, or "" if it can't be shown as text."""
    content_type, start = response.content_type, response.body[:PROBE_BYTES]
    if content_type in HTML_TYPES:
        return "html"
    subtype = content_type.partition("/")[2]
    if subtype == "json" or subtype.endswith("+json"):
        return "json"
    if content_type.startswith("text/") or subtype in TEXT_TYPES or subtype.endswith(("+xml", "+yaml")):
        return "text"
    if not content_type and b"\0" not in start:
        return (
            "html" if re.match(rb"\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", start, re.I | re.S) else "text"
        )
    return ""


def decode_text(response: FetchResponse) -> str:
    """Decode the body according to its byte order mark, header or own declaration, or else as UTF-8. Invalid bytes are replaced."""
    for bom, codec in BOMS:
        if response.body.startswith(bom):
            return response.body[len(bom) :].decode(codec, errors="replace")
    codec = _find_codec(_charset_parameter(response)) or _find_codec(_find_declared_charset(response.body))
    if codec:
        return response.body.decode(codec, errors="replace")
    try:
        # Incremental, because a truncated body may end in the middle of a character.
        return codecs.getincrementaldecoder("utf-8")("strict").decode(response.body)
    except UnicodeDecodeError:
        return response.body.decode("cp1252", errors="replace")


def _charset_parameter(response: FetchResponse) -> str:
    match = re.search(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", response.headers.get("content-type", ""), re.I)
    return match[1] if match else ""


def _find_declared_charset(body: bytes) -> str:
    match = DECLARED_CHARSET.search(body[:MAX_DECLARATION_BYTES])
    label = (match[1] or match[2]).decode("ascii") if match else ""
    # The declaration was readable as ASCII, so it can't be UTF-16.
    return "utf-8" if label.lower().startswith("utf-16") else label


def _find_codec(label: str) -> str:
    try:
        name = codecs.lookup(label).name if label else ""
    except LookupError:
        return ""
    return CODEC_ALIASES.get(name, name) if WEB_CODECS.fullmatch(name) else ""


def indent_json(text: str) -> str:
    """Indent JSON. Text that is invalid, truncated or very long is returned unchanged."""
    if len(text) > MAX_INDENTED:
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
