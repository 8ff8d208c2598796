"""Markdown to HTML that is safe to put into a page: what agents and people wrote is data, whatever they wrote.

Two walls: the renderer passes no HTML of the text through and makes links only to the web and to mailboxes, and nh3 then
lets only the tags and attributes named here leave. Images are never loaded (an address can carry data out): they become
links. Nothing is typeset: formulas stay as they were written, in an element of their own.

Costs are bounded, not only usual: text that would take quadratic time is shown as it is. Knows no Django; the libraries are
imported on first use (0.1 s), since most processes render nothing.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from clawsite.infra.markdown.highlight import CLASSES, highlight

if TYPE_CHECKING:
    import nh3
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

MAX_TEXT_LENGTH = 128 << 10  # characters; the parser needs 0.3 s for that much prose, and more than a second for odd text
MAX_COST = 2_000_000  # brackets of a paragraph times its length: the end of each is looked for through all of it
MAX_DELIMITERS = 4_000  # of one paragraph
DELIMITERS = "*_~"
MAX_CELLS = 20_000  # of all tables of a text: a quarter of a second. The parser's own limit is 65,536 in each
MAX_DEPTH = 60  # blocks inside blocks; behind that, text would be dropped
MAX_CACHED_CHARACTERS = 8 << 20

SCHEMES = {"http", "https", "mailto"}
LINK_PATTERN = re.compile(r"https?://[^/?#\\]|mailto:[^/?#\\]", re.IGNORECASE)
LANGUAGE_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+#.-]{0,31}")
# What a URL parser skips or a reader cannot see: an address that has any is not made a link.
INVISIBLE_CHARACTERS = re.compile(r"[\x00-\x20\x7f-\xa0­​-‏\u2028-‮⁠-⁯﻿]")
# An address that nobody marked as a link, up to what cannot be part of it; and what belongs to the sentence around it.
URL_PATTERN = re.compile(r"""\bhttps?://[^\s<>"'`|，。；：！？、（）「」《》]{3,2000}""")
TRAILING_PUNCTUATION = ".,;:!?*_~]"
ALLOWED_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li", "em", "strong", "s", "a", "code", "pre"),
    *("table", "thead", "tbody", "tr", "th", "td", "span", "div", "input"),
}
ALLOWED_ATTRIBUTES: dict[str, set[str]] = {
    "*": set(),
    "a": {"href"},
    "pre": {"data-language"},
    "ol": {"start"},
    "input": {"checked", "disabled"},
}
ALLOWED_CLASSES = {
    "a": {"image"},
    "pre": {"code", "plain"},
    "span": {"math", *CLASSES},
    "div": {"math"},
    "th": {"left", "center", "right"},
    "td": {"left", "center", "right"},
    "li": {"task-list-item"},
}


def render_markdown(text: str) -> str:
    """The HTML of a text. The same text again costs nothing while it is remembered."""
    if (known := _cache.get(text)) is not None:
        return known
    html = _render_plain(text) if len(text) > MAX_TEXT_LENGTH else _make_cleaner().clean(_make_parser().render(text))
    _cache.put(text, html)
    return html


def _render_plain(text: str) -> str:
    return f'<pre class="plain">{escape(text)}</pre>'


class _RenderCache:
    """The texts rendered last, as many as fit. Used by several threads."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._known: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, text: str) -> str | None:
        with self._lock:
            html = self._known.get(text)
            if html is not None:
                self._known.move_to_end(text)
            return html

    def put(self, text: str, html: str) -> None:
        with self._lock:
            if text in self._known:
                return
            self._known[text] = html
            self._size += len(text) + len(html)
            while self._size > self._most:
                old, its_html = self._known.popitem(last=False)
                self._size -= len(old) + len(its_html)


_cache = _RenderCache(MAX_CACHED_CHARACTERS)


@cache
def _make_cleaner() -> "nh3.Cleaner":
    import nh3

    return nh3.Cleaner(
        tags=ALLOWED_TAGS,
        attributes=ALLOWED_ATTRIBUTES,
        allowed_classes=ALLOWED_CLASSES,
        tag_attribute_values={"input": {"type": {"checkbox"}}},
        url_schemes=SCHEMES,
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


@cache
def _make_parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    from clawsite.infra.markdown.formulas import math_plugin

    # A line break is shown where one was written: people press Enter to get one, and models write that way too.
    md = MarkdownIt("commonmark", {"html": False, "breaks": True, "tasklists": True, "maxNesting": MAX_DEPTH})
    md.enable(["table", "strikethrough"])
    md.block.ruler.at("table", _parse_bounded_table, {"alt": ["paragraph", "reference"]})
    md.use(math_plugin)
    md.validateLink = _is_external_link  # type: ignore[method-assign,assignment]  # how the library wants it
    md.core.ruler.before("inline", "costly_as_text", _keep_expensive_as_text)
    md.core.ruler.push("as_we_show_it", _adapt_tokens)
    for name in ("fence", "code_block"):
        md.add_render_rule(name, _render_code)
    return md


def _is_external_link(address: str) -> bool:
    """Anything else stays the text it was written as."""
    return bool(LINK_PATTERN.match(address)) and not INVISIBLE_CHARACTERS.search(address)


def _parse_bounded_table(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """A row may leave cells out, and they are filled in: 1.5 KB of text made 65,000. What is behind the last one stays text."""
    from markdown_it.rules_block.table import table

    columns = state.src.count("|", state.bMarks[start], state.eMarks[start]) + 1
    made = state.env.get("cells", 0)
    rows = (MAX_CELLS - made) // columns
    if not rows or not table(state, start, min(end, start + 1 + rows), silent):
        return False
    if not silent:
        state.env["cells"] = made + columns * (state.line - start - 1)
    return True


def _keep_expensive_as_text(state: "StateCore") -> None:
    """A paragraph made of brackets or delimiters takes quadratic time; nobody meant anything by it."""
    for token in state.tokens:
        text = token.content
        if token.type != "inline":
            continue
        if _count(text, "[(") * len(text) > MAX_COST or _count(text, DELIMITERS) > MAX_DELIMITERS:
            token.content, token.children = "", [_text_token(text)]


def _count(text: str, signs: str) -> int:
    return sum(map(text.count, signs))


def _adapt_tokens(state: "StateCore") -> None:
    """Images as links, and the columns' alignment as a class: the page's policy allows neither images nor styles."""
    for token in state.tokens:
        if token.type in ("th_open", "td_open") and (style := token.attrs.pop("style", "")):
            token.attrs["class"] = str(style).removeprefix("text-align:")
        if token.children:
            token.children = list(_convert_links(token.children))


def _convert_links(children: "list[Token]") -> "Iterator[Token]":
    """Images become links; so do addresses in the text, though nobody marked them."""
    in_link = 0
    for token in children:
        in_link += token.nesting if token.type in ("link_open", "link_close") else 0
        if token.type == "image":
            address = str(token.attrs["src"])
            words = token.content or address
            # In a link, the image stood for its words.
            yield from [_text_token(words)] if in_link else _link_tokens(address, words, style="image")
        elif token.type == "text" and not in_link and "://" in token.content:
            yield from _link_urls(token.content)
        else:
            yield token


def _link_urls(text: str) -> "Iterator[Token]":
    end = 0
    for found in URL_PATTERN.finditer(text):
        address = found[0].rstrip(TRAILING_PUNCTUATION)
        while address.endswith(")") and address.count(")") > address.count("("):  # "(see https://example.org)"
            address = address[:-1].rstrip(TRAILING_PUNCTUATION)
        if _is_external_link(address):
            yield _text_token(text[end : found.start()])
            yield from _link_tokens(address, address)
            end = found.start() + len(address)
    yield _text_token(text[end:])


def _link_tokens(address: str, words: str, style: str = "") -> "list[Token]":
    from markdown_it.token import Token

    attributes: dict[str, str | int | float] = {"href": address}
    if style:
        attributes["class"] = style
    return [Token("link_open", "a", 1, attrs=attributes), _text_token(words), Token("link_close", "a", -1)]


def _text_token(words: str) -> "Token":
    from markdown_it.token import Token

    return Token("text", "", 0, content=words)


def _render_code(_renderer: Any, tokens: "Sequence[Token]", at: int, _options: Any, _env: Any) -> str:
    """A block of code; its language, if it looks like one, is kept for the page to show."""
    token = tokens[at]
    named = LANGUAGE_PATTERN.match(token.info.strip())
    language = named[0] if named else ""
    label = f' data-language="{escape(language)}"' if language else ""
    return f'<pre class="code"{label}><code>{highlight(token.content, language)}</code></pre>\n'
