"""Brave Search, by API key (https://api-dashboard.search.brave.com/app/documentation/web-search/get-started)."""

from urllib.parse import urlencode

from django.conf import settings

from clawsite.infra.fetch.client import fetch
from tools_app.core.definition import ToolFailed
from tools_app.web_search.base import MAX_RESPONSE_BYTES, SearchQuery, WebSearchResult, parse_json_response, parse_results

ENDPOINT = "https://api.search.brave.com/res/v1/web/search"
FRESHNESS = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}
ERROR_MESSAGES = {
    401: "Brave Search does not accept the API key: the operator must check BRAVE_API_KEY",
    403: "Brave Search does not accept the API key: the operator must check BRAVE_API_KEY",
    422: "Brave Search does not accept the query: leave out country, language or freshness, or use fewer words",
    429: "Brave Search allows no more requests for now: wait a little, or go on without it",
}


class Brave:
    name = "brave"

    def __init__(self, key: str) -> None:
        self._key = key

    async def search(self, query: SearchQuery) -> list[WebSearchResult]:
        asked = {"q": query.words, "count": str(query.count), "text_decorations": "false", "result_filter": "web"}
        asked |= {"country": query.country} if query.country else {}
        asked |= {"search_lang": query.language} if query.language else {}
        asked |= {"freshness": FRESHNESS[query.freshness]} if query.freshness else {}
        headers = {"X-Subscription-Token": self._key, "Accept": "application/json"}
        answer = await fetch(f"{ENDPOINT}?{urlencode(asked)}", headers=headers, max_bytes=MAX_RESPONSE_BYTES)
        if answer.status != 200:
            words = f"Brave Search answered with status {answer.status}; try again later, or tell the user"
            raise ToolFailed(ERROR_MESSAGES.get(answer.status, words))
        web = parse_json_response(answer, "Brave Search").get("web")
        return parse_results(web.get("results") if isinstance(web, dict) else None, query.count, snippet="description")


def make_configured() -> Brave | None:
    return Brave(settings.BRAVE_API_KEY) if settings.BRAVE_API_KEY else None
