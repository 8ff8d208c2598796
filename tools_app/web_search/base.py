"""The interface of search engines. A new one is a class with `search`, added in tools_app.web_search.registry or by a plugin."""

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
    text: str
    count: int
    country: str = ""  # two letters, uppercase; "" for anywhere
    language: str = ""  # two letters, lowercase; "" for any
    freshness: str = ""  # day, week, month, year; "" for any time


@dataclass(frozen=True, slots=True)
class WebSearchResult:
    title: str
    url: str
    snippet: str


class SearchProvider(Protocol):
    name: str

    async def search(self, query: SearchQuery) -> list[WebSearchResult]:
        """Return at most `query.count` results, best first. Raise ToolFailed or FetchError on failure."""
        ...


def parse_json_response(response: FetchResponse, provider: str) -> dict[str, Any]:
    try:
        data = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        data = None
    if not isinstance(data, dict):
        raise ToolFailed(f"{provider} returned an unexpected response; try again later, or tell the user")
    return data


def parse_results(items: Any, count: int, *, snippet: str) -> list[WebSearchResult]:
    """Return the first `count` items that have a web URL, without duplicates. `snippet` is the key of the excerpt."""
    hits: dict[str, WebSearchResult] = {}
    for each in items if isinstance(items, list) else []:
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
    """Return one line of text without the markup some engines use to highlight matches."""
    text = " ".join(remove_hidden(html.unescape(TAG_PATTERN.sub("", value)))[0].split()) if isinstance(value, str) else ""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
