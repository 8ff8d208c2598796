"""Page source without the whitespace that the layout of a template adds, so that tests can compare markup."""

import re

BLOCKS = (
    "address|article|aside|blockquote|body|button|datalist|dd|details|dialog|div|dl|dt|fieldset|figcaption|figure|footer|form|"
    "h[1-6]|head|header|hr|html|legend|li|link|main|meta|nav|noscript|ol|option|p|pre|script|section|select|summary|table|tbody|"
    "td|template|textarea|tfoot|th|thead|title|tr|ul"
)
VERBATIM = re.compile(r"(<(?:pre|textarea)\b[^<>]*>.*?</(?:pre|textarea)>)", re.DOTALL)
OPENING_TAG = re.compile(r"<[a-z][^<>]*>")
AROUND_BLOCK = re.compile(rf" ?(</?(?:{BLOCKS})\b[^<>]*>) ?")


def compact_html(html: str) -> str:
    """Remove whitespace next to block elements and reduce it to one space elsewhere, except in `pre` and `textarea`."""
    parts = VERBATIM.split(html)  # every second one is verbatim
    parts[::2] = [AROUND_BLOCK.sub(r"\1", re.sub(r"\s+", " ", OPENING_TAG.sub(_join_lines, part))) for part in parts[::2]]
    parts[1::2] = [OPENING_TAG.sub(_join_lines, part, count=1) for part in parts[1::2]]
    return "".join(parts)


def _join_lines(tag: re.Match[str]) -> str:
    return re.sub(r"\s+", " ", tag[0]).replace(" />", "/>").replace(" >", ">")
