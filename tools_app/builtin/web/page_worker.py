"""The process that extracts text from a page. Reads a line of JSON and the page from stdin; writes two lines of JSON to stdout.

The first line has the title and the text of the whole page and is written early. The second has the main text, if it is found
before the parent's timeout. It is a separate process because a page can be crafted to take minutes (100,000 attributes in one tag
did), because the work would hold the interpreter lock of a worker that has leases to renew, and because importing trafilatura
takes 0.6 s and 30 MB.
"""

import json
import resource
import sys
from typing import Any

from tools_app.builtin.web import page_whole

CPU_LIMIT_S = 30
MEMORY_LIMIT = 1024 * 1024 * 1024  # bytes of address space; the largest page that can be fetched needs a third of it
MIN_MAIN_SHARE = 0.25  # of the whole text; below that, the page is probably a list of links


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    request = json.loads(sys.stdin.buffer.readline())
    html, url, markdown = sys.stdin.buffer.read(), request["url"], request["markdown"]
    title, whole = extract_whole_page(html, url, markdown=markdown)
    _write_line({"title": title, "text": whole})
    main_text = extract_main_text(html, url, markdown=markdown) if whole else ""
    _write_line({"text": main_text if len(main_text) >= len(whole) * MIN_MAIN_SHARE else ""})


def extract_whole_page(html: bytes, url: str, *, markdown: bool) -> tuple[str, str]:
    tree = _parse_html(html)
    if tree is None:
        return "", ""
    title = " ".join((tree.findtext(".//title") or "").split())
    return title, page_whole.extract_page_text(tree, url, links=markdown)


def extract_main_text(html: bytes, url: str, *, markdown: bool) -> str:
    """Return what trafilatura considers the article; "" if it finds none."""
    from trafilatura import extract
    from trafilatura.settings import use_config

    config = use_config()
    config.set("DEFAULT", "MIN_EXTRACTED_SIZE", "0")  # by default, short pages lose their layout
    output = "markdown" if markdown else "txt"
    return extract(_parse_html(html), url=url, output_format=output, include_links=markdown, favor_recall=True, config=config) or ""


def _parse_html(html: bytes) -> Any:
    """Parse the page as UTF-8, whatever it declares. Return None if it has only whitespace and comments."""
    from lxml.etree import ParserError
    from lxml.html import HTMLParser, document_fromstring

    try:
        return document_fromstring(html, parser=HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True))
    except ParserError:
        return None


def _write_line(data: dict[str, str]) -> None:
    sys.stdout.buffer.write(json.dumps(data).encode() + b"\n")
    sys.stdout.buffer.flush()
