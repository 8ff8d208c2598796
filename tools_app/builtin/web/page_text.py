"""From the bytes of an answer to text: which kind it is, and in which character set. Needs no network."""

import codecs
import json
import re

from clawsite.infra.fetch.client import FetchResponse

HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
TEXT_TYPES = frozenset(
    {"xml", "javascript", "ecmascript", "x-javascript", "yaml", "x-yaml", "toml", "sql", "graphql", "x-sh", "ndjson"}
)
MAX_INDENTED = 1_000_000  # characters; about 0.1 s of work, during which nothing else runs
PROBE_BYTES = 8192  # bytes; a NUL among the first ones means binary, as for files
DECLARED_CHARSET = re.compile(
    rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})|<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})""", re.I
)
MAX_DECLARATION_BYTES = 2048  # bytes; browsers look at the first 1024
BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
# Python knows more codecs than the web has character sets, and some are no text: utf-7, unicode_escape, idna.
WEB_CODECS = re.compile(
    r"utf-8|utf-16(-[bl]e)?|ascii|iso8859-\d+|cp125\d|cp866|cp874|koi8-[ru]|gb2312|gbk|gb18030|big5(hkscs)?|euc_jp|euc_kr"
    r"|cp932|cp949|shift_jis|iso2022_jp|mac-(roman|cyrillic)|tis-620"
)
# What these labels mean in practice, as browsers have it: the larger set.
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


def detect_kind(answer: FetchResponse) -> str:
    """html, json, text, or "" for what cannot be shown as text."""
    stated, start = answer.content_type, answer.body[:PROBE_BYTES]
    if stated in HTML_TYPES:
        return "html"
    subtype = stated.partition("/")[2]
    if subtype == "json" or subtype.endswith("+json"):
        return "json"
    if stated.startswith("text/") or subtype in TEXT_TYPES or subtype.endswith(("+xml", "+yaml")):
        return "text"
    if not stated and b"\0" not in start:
        return (
            "html" if re.match(rb"\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", start, re.I | re.S) else "text"
        )
    return ""


def decode_text(answer: FetchResponse) -> str:
    """The body as text, by its byte order mark, its header, its own declaration, or as UTF-8; whatever does not fit is replaced."""
    for bom, codec in BOMS:
        if answer.body.startswith(bom):
            return answer.body[len(bom) :].decode(codec, errors="replace")
    codec = _find_codec(_charset_parameter(answer)) or _find_codec(_find_declared_charset(answer.body))
    if codec:
        return answer.body.decode(codec, errors="replace")
    try:
        # Not final: a body that was cut may end in mid-character.
        return codecs.getincrementaldecoder("utf-8")("strict").decode(answer.body)
    except UnicodeDecodeError:
        return answer.body.decode("cp1252", errors="replace")


def _charset_parameter(answer: FetchResponse) -> str:
    found = re.search(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", answer.headers.get("content-type", ""), re.I)
    return found[1] if found else ""


def _find_declared_charset(body: bytes) -> str:
    found = DECLARED_CHARSET.search(body[:MAX_DECLARATION_BYTES])
    label = (found[1] or found[2]).decode("ascii") if found else ""
    # It could be read, so it is not UTF-16, whatever it says.
    return "utf-8" if label.lower().startswith("utf-16") else label


def _find_codec(label: str) -> str:
    try:
        name = codecs.lookup(label).name if label else ""
    except LookupError:
        return ""
    return CODEC_ALIASES.get(name, name) if WEB_CODECS.fullmatch(name) else ""


def indent_json(text: str) -> str:
    """JSON in a readable layout; what is none, was cut, or is very long stays as it is."""
    if len(text) > MAX_INDENTED:
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
