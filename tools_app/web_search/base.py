"""What a search engine is to us. A new one is a class with `search`, and comes by tools_app.web_search.registry or by a plugin."""

import html
import re
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from clawsite.infra.fetch.client import Fetched
from tools_app.core.definition import ToolFailed
from tools_app.core.hidden_characters import visible

MAX_ANSWER_BYTES = 2 * 1024 * 1024
MAX_SNIPPET = 500  # characters
MAX_TITLE = 200
WEB_ADDRESS = re.compile(r"https?://[!-~]{1,2000}")
TAG = re.compile(r"<[^<>]{1,100}>")


@dataclass(frozen=True, slots=True)
class SearchQuery:
    words: str
    count: int
    country: str = ""  # two letters, upper case; "" for anywhere
    language: str = ""  # two letters, lower case; "" for any
    freshness: str = ""  # day, week, month, year; "" for any time


@dataclass(frozen=True, slots=True)
class Hit:
    title: str
    url: str
    snippet: str


class SearchProvider(Protocol):
    name: str

    async def search(self, query: SearchQuery) -> list[Hit]:
        """The best hits first, at most `query.count`; ToolFailed or FetchError when it does not work."""
        ...


def json_of(answer: Fetched, provider: str) -> dict[str, Any]:
    try:
        found = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise ToolFailed(f"{provider} did not answer in the expected form; try again later, or tell the user")
    return found


def hits_of(found: Any, count: int, *, snippet: str) -> list[Hit]:
    """The first usable ones of a list of JSON objects: with a web address, none of them twice."""
    hits: dict[str, Hit] = {}
    for each in found if isinstance(found, list) else []:
        url = each.get("url") if isinstance(each, dict) else None
        if not isinstance(url, str) or not WEB_ADDRESS.fullmatch(url):
            continue
        hits.setdefault(url, Hit(_plain(each.get("title"), MAX_TITLE) or url, url, _plain(each.get(snippet), MAX_SNIPPET)))
        if len(hits) == count:
            break
    return list(hits.values())


def _plain(value: Any, limit: int) -> str:
    """One line of text, without the markup in which some engines set the words that match."""
    text = " ".join(visible(html.unescape(TAG.sub("", value)))[0].split()) if isinstance(value, str) else ""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
