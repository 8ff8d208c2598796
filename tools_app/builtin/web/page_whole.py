"""The text of a whole page, line by line, for pages that are not articles: home pages, lists of links."""

import re
from typing import Any
from urllib.parse import urljoin

# Not <head>: without a <body> tag, the parser puts all text of the page there.
SKIPPED_TAGS = (
    "title",
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "iframe",
    "object",
    "select",
    "button",
    "textarea",
    "math",
)
HIDDEN_XPATH = ".//*[@hidden or @aria-hidden='true' or contains(translate(@style, ' ', ''), 'display:none')]"
# Elements that start a new line.
BLOCK_TAGS = frozenset(
    {"address", "article", "aside", "blockquote", "br", "dd", "details", "div", "dl", "dt", "fieldset", "figcaption", "figure"}
    | {"footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section"}
    | {"summary", "table", "td", "th", "tr", "ul"}
)
LINE_BREAK = "\ue000"  # private use character; line breaks in the source count as spaces
BLANKS = re.compile(r"[^\S\n]+")
LINES = re.compile(r"\s*\n\s*")


def extract_page_text(tree: Any, url: str, *, links: bool) -> str:
    """Return the lines of an lxml document, which is modified. With `links`, links are written as markdown."""
    for element in [*tree.iter(*SKIPPED_TAGS), *tree.xpath(HIDDEN_XPATH)]:
        if element.getparent() is not None:
            element.drop_tree()
    if links:
        for link in tree.iter("a"):
            text, target = " ".join(link.text_content().split()), _make_absolute(url, link.get("href", ""))
            if text and target:
                link.clear(keep_tail=True)
                link.text = f"[{text}]({target})"
    for element in tree.iter(*BLOCK_TAGS):
        element.text = f"{LINE_BREAK}{element.text or ''}"
        element.tail = f"{LINE_BREAK}{element.tail or ''}"
    text = " ".join(tree.text_content().split()).replace(LINE_BREAK, "\n")
    return LINES.sub("\n", BLANKS.sub(" ", text)).strip()


def _make_absolute(url: str, href: str) -> str:
    try:
        joined = urljoin(url, href.strip())
    except ValueError:
        return ""
    return joined if joined.startswith(("http://", "https://")) else ""
