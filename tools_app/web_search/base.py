"""What a search engine is to us. A new one is a class with `search`, and comes by tools_app.web_search.registry or by a plugin."""

import html
import re
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from clawsite.infra.fetch.client import FetchResponse
from tools_app.core.definition import ToolFailed
from tools_app.core.hidden_characters import remove_hidden

MAX_RESPONSE_BYTES = 2 * 1024 * 1024
MAX_SNIPPET_LENGTH = 500  # characters
MAX_TITLE_LENGTH = 200
URL_PATTERN = re.compile(r"https?://[!-~]{1,2000}")
TAG_PATTERN = re.compile(r"<[^<>]{1,100}>")


@dataclass(frozen=True, slots=True)
class SearchQuery:
    words: str
    count: int
    country: str = ""  # two letters, upper case; "" for anywhere
    language: str = ""  # two letters, lower case; "" for any
    freshness: str = ""  # day, week, month, year; "" for any time


@dataclass(frozen=True, slots=True)
class WebSearchResult:
    title: str
    url: str
    snippet: str


class SearchProvider(Protocol):
    name: str

    async def search(self, query: SearchQuery) -> list[WebSearchResult]:
        """The best hits first, at most `query.count`; ToolFailed or FetchError when it does not work."""
        ...


def parse_json_response(answer: FetchResponse, provider: str) -> dict[str, Any]:
    try:
        found = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise ToolFailed(f"{provider} did not answer in the expected form; try again later, or tell the user")
    return found


def parse_results(found: Any, count: int, *, snippet: str) -> list[WebSearchResult]:
    """The first usable ones of a list of JSON objects: with a web address, none of them twice."""
    hits: dict[str, WebSearchResult] = {}
    for each in found if isinstance(found, list) else []:
        url = each.get("url") if isinstance(each, dict) else None
        if not isinstance(url, str) or not URL_PATTERN.fullmatch(url):
            continue
        hits.setdefault(
            url,
            WebSearchResult(
                _to_plain_text(each.get("title"), MAX_TITLE_LENGTH) or url,
                url,
                _to_plain_text(each.get(snippet), MAX_SNIPPET_LENGTH),
            ),
        )
        if len(hits) == count:
            break
    return list(hits.values())


def _to_plain_text(value: Any, limit: int) -> str:
    """One line of text, without the markup in which some engines set the words that match."""
    text = " ".join(remove_hidden(html.unescape(TAG_PATTERN.sub("", value)))[0].split()) if isinstance(value, str) else ""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
