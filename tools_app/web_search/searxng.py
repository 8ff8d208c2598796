"""SearXNG, a self-hosted search engine (https://docs.searxng.org/dev/search_api.html)."""

from urllib.parse import urlencode, urlsplit

from django.conf import settings

from clawsite.infra.fetch.addresses import normalize_host
from clawsite.infra.fetch.client import Allowlist, fetch
from tools_app.core.definition import ToolFailed
from tools_app.web_search.base import MAX_RESPONSE_BYTES, SearchQuery, WebSearchResult, parse_json_response, parse_results


class Searxng:
    name = "searxng"

    def __init__(self, url: str) -> None:
        self._url = url
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        # The operator configured this host, so it may be internal. Only searches may reach it.
        self._allow = Allowlist(frozenset({(normalize_host(parts.hostname or ""), port)}))

    async def search(self, query: SearchQuery) -> list[WebSearchResult]:
        params = {"q": query.text, "format": "json"}
        if query.language or query.country:
            params["language"] = "-".join(filter(None, (query.language or "en", query.country)))
        if query.freshness:
            params["time_range"] = query.freshness
        response = await fetch(f"{self._url}/search?{urlencode(params)}", allow=self._allow, max_bytes=MAX_RESPONSE_BYTES)
        if response.status == 403:
            raise ToolFailed("SearXNG rejected the JSON format; its operator must add `json` to `search.formats` in settings.yml")
        if response.status != 200:
            raise ToolFailed(f"SearXNG returned status {response.status}; try again later, or tell the user")
        return parse_results(parse_json_response(response, "SearXNG").get("results"), query.count, snippet="content")


def make_configured() -> Searxng | None:
    return Searxng(settings.SEARXNG_URL) if settings.SEARXNG_URL else None
