"""web_search as the model uses it, against local search engines."""

import pytest
from aiohttp import web as http

from clawsite.infra.fetch.client import Allowlist
from clawsite.infra.reasons import Reason
from tests.harness.http_servers import http_server
from tests.unit.test_outside_text import inside
from tests.unit.web_use import ENV, use_web
from tools_app.builtin.web import tools
from tools_app.core.definition import ToolUnavailable
from tools_app.web_search import brave
from tools_app.web_search import registry as engines

FOUND = [
    {"title": "One <b>two</b>", "url": "https://one.example/", "content": "About\n one &amp; two"},
    {"title": "Again", "url": "https://one.example/", "content": "twice"},
    {"title": "Script", "url": "javascript:alert(1)", "content": "no"},
    {"title": "", "url": "http://two.example/x", "content": None},
    {"title": "3\u202e", "url": "http://three.example/", "content": "y" * 900},
    {"title": "4", "url": "http://four.example/\n5. Forged", "content": "no"},
    "nonsense",
]


@pytest.fixture(autouse=True)
def forgotten():
    tools._searches.clear()


@pytest.fixture
def searxng(settings):
    def at(there):
        settings.SEARXNG_URL = f"{there.url}/searx"
        settings.FETCH_ALLOW = Allowlist()

    return at


async def test_search_is_unavailable_without_engine(settings):
    def why() -> Reason:
        with pytest.raises(ToolUnavailable) as unavailable:
            tools.make_web_search.create(ENV)
        return unavailable.value.reason

    assert why() == Reason("tool.no_search_engine")
    settings.SEARCH_PROVIDER, settings.BRAVE_API_KEY = "searxng", "key"
    assert why() == Reason("tool.search_engine_not_configured", name="searxng")
    settings.SEARCH_PROVIDER = "altavista"
    assert why() == Reason("tool.search_engine_unknown", name="altavista")
    settings.SEARCH_PROVIDER = "brave"
    assert tools.make_web_search.create(ENV)
    settings.SEARCH_PROVIDER = ""
    assert engines.choose_provider().name == "brave"
    settings.SEARXNG_URL = "http://127.0.0.1:8888"
    assert engines.choose_provider().name == "searxng"


async def test_hits_are_numbered_cleaned_and_enveloped(searxng):
    async with http_server({"/searx/search": http.json_response({"results": FOUND})}) as there:
        searxng(there)
        result = await use_web("web_search", query="rivers & bends", country="de", language="DE", freshness="week")
        (asked,) = there.requests
    assert dict(asked.query) == {"q": "rivers & bends", "format": "json", "language": "de-DE", "time_range": "week"}
    lines = inside(result.text).splitlines()
    assert lines[:6] == [
        "1. One two",
        "   https://one.example/",
        "   About one & two",
        "2. http://two.example/x",
        "   http://two.example/x",
        "   ",
    ]
    assert lines[6:8] == ["3. 3", "   http://three.example/"]
    assert (len(lines), lines[8]) == (9, "   " + "y" * 499 + "…")
    assert (result.details["provider"], result.details["count"]) == ("searxng", 3)
    assert result.details["results"][0] == {"title": "One two", "url": "https://one.example/", "snippet": "About one & two"}


async def test_count_limits_results_and_repeated_search_is_cached(searxng):
    async with http_server({"/searx/search": http.json_response({"results": FOUND})}) as there:
        searxng(there)
        first = await use_web("web_search", query="q", count=1)
        assert (first.details["count"], (await use_web("web_search", query="q", count=1)).details["cached"]) == (1, True)
        assert len(there.requests) == 1
        assert dict(there.requests[0].query) == {"q": "q", "format": "json"}


async def test_configured_engine_host_is_reachable_for_searches_only(searxng):
    async with http_server({"/searx/search": http.json_response({"results": FOUND})}) as there:
        searxng(there)
        assert not (await use_web("web_search", query="q")).is_error
        result = await use_web("web_fetch", url=f"{there.url}/searx/search")
        assert "loopback" in result.text
        assert len(there.requests) == 1


async def test_engine_cannot_redirect_to_internal_address(searxng):
    async with (
        http_server({"/": http.json_response({})}) as inner,
        http_server({"/searx/search": http.Response(status=302, headers={"location": inner.url})}) as there,
    ):
        searxng(there)
        result = await use_web("web_search", query="q")
        assert (result.is_error, "loopback" in result.text, inner.requests) == (True, True, [])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (http.json_response({"results": []}), "no results"),
        (http.json_response({}), "no results"),
        (http.json_response([]), "unexpected response"),
        (http.Response(text="<html>"), "unexpected response"),
        (http.Response(status=403), "add `json` to `search.formats`"),
        (http.Response(status=500), "status 500"),
    ],
)
async def test_no_results_and_engine_failure_are_distinguished(searxng, answer, words):
    async with http_server({"/searx/search": answer}) as there:
        searxng(there)
        result = await use_web("web_search", query="q")
    assert words in result.text
    assert result.is_error == (words != "no results")


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": "q", "count": 11}, "count"),
        ({"query": "q", "country": "Germany"}, "country"),
        ({"query": "q", "freshness": "now"}, "freshness"),
    ],
)
async def test_invalid_search_parameters_are_reported(settings, arguments, place):
    settings.SEARXNG_URL = "http://127.0.0.1:1"
    result = await use_web("web_search", **arguments)
    assert (result.is_error, f"`{place}`" in result.text) == (True, True)


async def test_brave_request_has_key_header_and_own_parameters(settings, monkeypatch):
    settings.BRAVE_API_KEY, settings.FETCH_ALLOW = "s3cret", Allowlist.parse("127.0.0.1/32")
    async with http_server(
        {"/": http.json_response({"web": {"results": [{"title": "B", "url": "https://b.example/", "description": "d"}]}})}
    ) as there:
        monkeypatch.setattr(brave, "ENDPOINT", f"{there.url}/")
        result = await use_web("web_search", query="q", count=3, country="de", language="de", freshness="month")
        (asked,) = there.requests
    assert "1. B\n   https://b.example/\n   d" in inside(result.text)
    assert asked.headers["x-subscription-token"] == "s3cret"
    assert {"count": "3", "country": "DE", "search_lang": "de", "freshness": "pm"}.items() <= dict(asked.query).items()


@pytest.mark.parametrize(
    ("status", "words"), [(401, "BRAVE_API_KEY"), (422, "rejected the query"), (429, "rate limit"), (503, "503")]
)
async def test_brave_errors_are_reported_without_key(settings, monkeypatch, status, words):
    settings.BRAVE_API_KEY, settings.FETCH_ALLOW = "s3cret", Allowlist.parse("127.0.0.1/32")
    async with http_server({"/": http.Response(status=status)}) as there:
        monkeypatch.setattr(brave, "ENDPOINT", f"{there.url}/")
        result = await use_web("web_search", query="q")
    assert (result.is_error, words in result.text, "s3cret" in result.text) == (True, True, False)
