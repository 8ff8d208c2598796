"""Brave Search, by API key (https://api-dashboard.search.brave.com/app/documentation/web-search/get-started)."""

from urllib.parse import urlencode

from django.conf import settings

from clawsite.infra.fetch.client import fetch
from tools_app.core.definition import ToolFailed
from tools_app.web_search.base import MAX_RESPONSE_BYTES, SearchQuery, WebSearchResult, parse_json_response, parse_results

ENDPOINT = "https://api.search.brave.com/res/v1/web/search"
FRESHNESS = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}
ERROR_MESSAGES = {
    401: "Brave Search rejected the API key; an operator must check BRAVE_API_KEY",
    403: "Brave Search rejected the API key; an operator must check BRAVE_API_KEY",
    422: "Brave Search rejected the query; omit country, language or freshness, or use fewer words",
    429: "The rate limit of Brave Search was reached; wait a little, or continue without it",
}


class Brave:
    name = "brave"

    def __init__(self, key: str) -> None:
        self._key = key

    async def search(self, query: SearchQuery) -> list[WebSearchResult]:
        params = {"q": query.text, "count": str(query.count), "text_decorations": "false", "result_filter": "web"}
        params |= {"country": query.country} if query.country else {}
        params |= {"search_lang": query.language} if query.language else {}
        params |= {"freshness": FRESHNESS[query.freshness]} if query.freshness else {}
        headers = {"X-Subscription-Token": self._key, "Accept": "application/json"}
        response = await fetch(f"{ENDPOINT}?{urlencode(params)}", headers=headers, max_bytes=MAX_RESPONSE_BYTES)
        if response.status != 200:
            message = f"Brave Search returned status {response.status}; try again later, or tell the user"
            raise ToolFailed(ERROR_MESSAGES.get(response.status, message))
        web = parse_json_response(response, "Brave Search").get("web")
        return parse_results(web.get("results") if isinstance(web, dict) else None, query.count, snippet="description")


def make_configured() -> Brave | None:
    return Brave(settings.BRAVE_API_KEY) if settings.BRAVE_API_KEY else None
