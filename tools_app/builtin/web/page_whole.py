"""The text of a whole page, line by line: for front pages, lists of links and whatever else is no article."""

import re
from typing import Any
from urllib.parse import urljoin

# Not the head: a page that leaves out its <body> tag has, for the parser, all of its text there.
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
# What stands on lines of its own.
BLOCK_TAGS = frozenset(
    {"address", "article", "aside", "blockquote", "br", "dd", "details", "div", "dl", "dt", "fieldset", "figcaption", "figure"}
    | {"footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol", "p", "pre", "section"}
    | {"summary", "table", "td", "th", "tr", "ul"}
)
LINE_BREAK = "\ue000"  # for private use; line breaks of the source are blanks
BLANKS = re.compile(r"[^\S\n]+")
LINES = re.compile(r"\s*\n\s*")


def extract_page_text(tree: Any, url: str, *, links: bool) -> str:
    """The lines of an lxml document, which is used up; with `links` their addresses stand behind them."""
    for element in [*tree.iter(*SKIPPED_TAGS), *tree.xpath(HIDDEN_XPATH)]:
        if element.getparent() is not None:
            element.drop_tree()
    if links:
        for link in tree.iter("a"):
            words, address = " ".join(link.text_content().split()), _make_absolute(url, link.get("href", ""))
            if words and address:
                link.clear(keep_tail=True)
                link.text = f"[{words}]({address})"
    for element in tree.iter(*BLOCK_TAGS):
        element.text = f"{LINE_BREAK}{element.text or ''}"
        element.tail = f"{LINE_BREAK}{element.tail or ''}"
    text = " ".join(tree.text_content().split()).replace(LINE_BREAK, "\n")
    return LINES.sub("\n", BLANKS.sub(" ", text)).strip()


def _make_absolute(url: str, address: str) -> str:
    try:
        joined = urljoin(url, address.strip())
    except ValueError:
        return ""
    return joined if joined.startswith(("http://", "https://")) else ""
