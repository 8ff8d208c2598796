"""Render untrusted Markdown from agents and users to safe HTML.

There are two lines of defense: the renderer escapes HTML in the text and only creates http, https and mailto links, and nh3
then only keeps the tags and attributes listed here. Images are never loaded, because a URL can leak data; they become links.
Formulas are not typeset: they keep their source in a separate element.

The cost is bounded: text that would take quadratic time is shown as plain text. Needs no Django. The libraries are imported
on first use (0.1 s), because most processes render nothing.
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

MAX_TEXT_LENGTH = 128 << 10  # characters; the parser needs 0.3 s for that much prose, and more than a second for unusual text
MAX_COST = 2_000_000  # brackets in a paragraph times its length: for each bracket, the parser searches all of it for the end
MAX_DELIMITERS = 4_000  # per paragraph
DELIMITERS = "*_~"
MAX_CELLS = 20_000  # in all tables of a text, which takes 0.25 s. The parser's own limit is 65,536 per table
MAX_DEPTH = 60  # nested blocks; the parser drops deeper text
MAX_CACHED_CHARACTERS = 8 << 20

SCHEMES = {"http", "https", "mailto"}
LINK_PATTERN = re.compile(r"https?://[^/?#\\]|mailto:[^/?#\\]", re.IGNORECASE)
LANGUAGE_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+#.-]{0,31}")
# Characters that URL parsers skip or readers can't see: a URL with any of them doesn't become a link.
INVISIBLE_CHARACTERS = re.compile(r"[\x00-\x20\x7f-\xa0­​-‏\u2028-‮⁠-⁯﻿]")
# A URL in plain text, and punctuation at its end that belongs to the sentence.
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
    """Return the HTML of a text. Recent results are cached."""
    if (cached := _cache.get(text)) is not None:
        return cached
    html = _render_plain(text) if len(text) > MAX_TEXT_LENGTH else _make_cleaner().clean(_make_parser().render(text))
    _cache.put(text, html)
    return html


def _render_plain(text: str) -> str:
    return f'<pre class="plain">{escape(text)}</pre>'


class _RenderCache:
    """A thread-safe LRU cache, limited by the total number of characters."""

    def __init__(self, max_size: int) -> None:
        self._max_size, self._size = max_size, 0
        self._items: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, text: str) -> str | None:
        with self._lock:
            html = self._items.get(text)
            if html is not None:
                self._items.move_to_end(text)
            return html

    def put(self, text: str, html: str) -> None:
        with self._lock:
            if text in self._items:
                return
            self._items[text] = html
            self._size += len(text) + len(html)
            while self._size > self._max_size:
                old_text, old_html = self._items.popitem(last=False)
                self._size -= len(old_text) + len(old_html)


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

    # Line breaks are kept: users press Enter to get one, and models write that way too.
    md = MarkdownIt("commonmark", {"html": False, "breaks": True, "tasklists": True, "maxNesting": MAX_DEPTH})
    md.enable(["table", "strikethrough"])
    md.block.ruler.at("table", _parse_bounded_table, {"alt": ["paragraph", "reference"]})
    md.use(math_plugin)
    md.validateLink = _is_external_link  # type: ignore[method-assign]  # the documented way to override it
    md.core.ruler.before("inline", "costly_as_text", _keep_expensive_as_text)
    md.core.ruler.push("as_we_show_it", _adapt_tokens)
    for name in ("fence", "code_block"):
        md.add_render_rule(name, _render_code)
    return md


def _is_external_link(url: str) -> bool:
    """Whether the URL may become a link; others stay plain text."""
    return bool(LINK_PATTERN.match(url)) and not INVISIBLE_CHARACTERS.search(url)


def _parse_bounded_table(state: "StateBlock", start: int, end: int, silent: bool) -> bool:
    """Limit the number of cells: the parser fills in missing ones, so 1.5 KB of text can make 65,000. Later rows stay text."""
    from markdown_it.rules_block.table import table

    columns = state.src.count("|", state.bMarks[start], state.eMarks[start]) + 1
    used = state.env.get("cells", 0)
    rows = (MAX_CELLS - used) // columns
    if not rows or not table(state, start, min(end, start + 1 + rows), silent):
        return False
    if not silent:
        state.env["cells"] = used + columns * (state.line - start - 1)
    return True


def _keep_expensive_as_text(state: "StateCore") -> None:
    """Show paragraphs with very many brackets or delimiters as plain text, because parsing them takes quadratic time."""
    for token in state.tokens:
        text = token.content
        if token.type != "inline":
            continue
        if _count(text, "[(") * len(text) > MAX_COST or _count(text, DELIMITERS) > MAX_DELIMITERS:
            token.content, token.children = "", [_text_token(text)]


def _count(text: str, characters: str) -> int:
    return sum(map(text.count, characters))


def _adapt_tokens(state: "StateCore") -> None:
    """Turn images into links and column alignment into classes: the content security policy allows neither images nor styles."""
    for token in state.tokens:
        if token.type in ("th_open", "td_open") and (style := token.attrs.pop("style", "")):
            token.attrs["class"] = str(style).removeprefix("text-align:")
        if token.children:
            token.children = list(_convert_links(token.children))


def _convert_links(children: "list[Token]") -> "Iterator[Token]":
    """Turn images and bare URLs into links."""
    in_link = 0
    for token in children:
        in_link += token.nesting if token.type in ("link_open", "link_close") else 0
        if token.type == "image":
            url = str(token.attrs["src"])
            label = token.content or url
            # Inside a link, the image was the link text.
            yield from [_text_token(label)] if in_link else _link_tokens(url, label, css_class="image")
        elif token.type == "text" and not in_link and "://" in token.content:
            yield from _link_urls(token.content)
        else:
            yield token


def _link_urls(text: str) -> "Iterator[Token]":
    end = 0
    for match in URL_PATTERN.finditer(text):
        url = match[0].rstrip(TRAILING_PUNCTUATION)
        while url.endswith(")") and url.count(")") > url.count("("):  # "(see https://example.org)"
            url = url[:-1].rstrip(TRAILING_PUNCTUATION)
        if _is_external_link(url):
            yield _text_token(text[end : match.start()])
            yield from _link_tokens(url, url)
            end = match.start() + len(url)
    yield _text_token(text[end:])


def _link_tokens(url: str, label: str, css_class: str = "") -> "list[Token]":
    from markdown_it.token import Token

    attributes: dict[str, str | int | float] = {"href": url}
    if css_class:
        attributes["class"] = css_class
    return [Token("link_open", "a", 1, attrs=attributes), _text_token(label), Token("link_close", "a", -1)]


def _text_token(text: str) -> "Token":
    from markdown_it.token import Token

    return Token("text", "", 0, content=text)


def _render_code(_renderer: Any, tokens: "Sequence[Token]", at: int, _options: Any, _env: Any) -> str:
    """Render a code block. The page shows the language, if the info string starts with one."""
    token = tokens[at]
    match = LANGUAGE_PATTERN.match(token.info.strip())
    language = match[0] if match else ""
    label = f' data-language="{escape(language)}"' if language else ""
    return f'<pre class="code"{label}><code>{highlight(token.content, language)}</code></pre>\n'
