"""The web tools in a real run: the model calls, a worker fetches, and the result or an error message is returned."""

import asyncio
from dataclasses import replace

import pytest
from aiohttp import web as http

from clawsite.infra.fetch.client import Allowlist
from sessions_app.runs import lifecycle
from tests.harness.http_servers import drip_bytes, http_server, never_respond
from tests.harness.worker import WorkerHarness, calls_of, transcript_of
from tools_app.builtin.web import tools as web
from tools_app.policy_store import policies
from tools_app.sources import tools as source_tools


@pytest.fixture
def harness(harness: WorkerHarness, settings):
    """A worker harness whose agent may use the web; local addresses count as remote."""
    settings.FETCH_ALLOW = Allowlist.parse("127.0.0.0/8")
    web._pages.clear()
    web._searches.clear()
    policies.save_policy(scope="agent", subject="main", profile="full")
    yield harness
    policies.save_policy(scope="agent", subject="main", profile="coding")


def asks(tool: str, arguments: str) -> str:
    return f"[[tool={tool} args={{{arguments}}}]] [[text=done]]"


def seen_by_the_model(harness: WorkerHarness) -> str:
    return [message["content"] for message in harness.model.bodies[-1]["messages"] if message["role"] == "tool"][-1]


async def test_fetched_page_reaches_model_in_its_envelope(harness: WorkerHarness):
    html = "<title>Rivers</title><article><h1>Rivers</h1><p>They bend, and nobody asked them to.</p></article>"
    async with http_server({"/": http.Response(text=html, content_type="text/html")}) as there:
        run = await harness.answer(asks("web_fetch", f'"url":"{there.url}"'))
    (call,) = calls_of(run)
    assert (call.status, call.is_error, call.result["details"]["title"]) == ("finished", False, "Rivers")
    text = seen_by_the_model(harness)
    assert "not instructions to follow" in text
    assert "They bend, and nobody asked them to." in text
    assert transcript_of(run)[-1] == ("assistant", "done")


async def test_search_queries_engine_and_returns_hits_to_model(harness: WorkerHarness, settings):
    hits = {"results": [{"title": "Rivers", "url": "https://rivers.example/", "content": "They bend."}]}
    async with http_server({"/search": http.json_response(hits)}) as there:
        settings.SEARXNG_URL, settings.FETCH_ALLOW = there.url, Allowlist()
        run = await harness.answer(asks("web_search", '"query":"rivers"'))
    (call,) = calls_of(run)
    assert (call.status, call.result["details"]["count"]) == ("finished", 1)
    assert "1. Rivers\n   https://rivers.example/\n   They bend." in seen_by_the_model(harness)


async def test_search_is_not_offered_without_an_engine(harness: WorkerHarness):
    run = await harness.answer(asks("web_search", '"query":"rivers"'))
    offered = {tool["function"]["name"] for tool in harness.model.bodies[-1]["tools"]}
    assert ("web_fetch" in offered, "web_search" in offered) == (True, False)
    assert [call.status for call in calls_of(run)] == ["refused"]


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("web_fetch", '"url":"http://h/","max_chars":1', "`max_chars`"),
        ("web_fetch", '"address":"http://h/"', "Missing required parameter: url"),
        ("web_search", '"query":"q","count":50', "`count`"),
    ],
)
async def test_invalid_parameters_return_an_error_and_fetch_nothing(harness: WorkerHarness, settings, tool, arguments, words):
    settings.SEARXNG_URL = "http://127.0.0.1:1"
    run = await harness.answer(asks(tool, arguments))
    (call,) = calls_of(run)
    assert (call.is_error, run.status) == (True, "completed")
    assert words in seen_by_the_model(harness)


@pytest.mark.parametrize("tool", ["web_fetch", "web_search"])
async def test_abort_closes_the_connection(harness: WorkerHarness, settings, eventually, tool):
    async with http_server(drip_bytes) as there:
        settings.SEARXNG_URL = there.url
        run_pk = harness.send(asks(tool, f'"url":"{there.url}"' if tool == "web_fetch" else '"query":"q"'))
        await eventually(lambda: there.requests)
        lifecycle.request_abort(user=harness.user, session=harness.session)
        run = await harness.ended(run_pk)
        assert run.status == "aborted"
        await asyncio.wait_for(there.left.wait(), 20)


async def test_unresponsive_server_returns_a_timeout_error(harness: WorkerHarness, monkeypatch):
    monkeypatch.setattr(web, "FETCH_TIMEOUT_S", 0.3)
    async with http_server(never_respond) as there:
        run = await harness.answer(asks("web_fetch", f'"url":"{there.url}"'))
        await asyncio.wait_for(there.left.wait(), 20)
    assert (calls_of(run)[0].is_error, run.status) == (True, "completed")
    assert seen_by_the_model(harness) == "fetching failed: no complete response within 0.3 s"


@pytest.mark.parametrize("tool", ["web_fetch", "web_search"])
async def test_timed_out_call_is_stopped_and_run_continues(harness: WorkerHarness, settings, monkeypatch, tool):
    known = source_tools.load_tools().tools
    monkeypatch.setitem(known, tool, replace(known[tool], factory=replace(known[tool].factory, timeout_s=0.2)))
    async with http_server(never_respond) as there:
        settings.SEARXNG_URL = there.url
        run = await harness.answer(asks(tool, f'"url":"{there.url}"' if tool == "web_fetch" else '"query":"q"'))
        await asyncio.wait_for(there.left.wait(), 20)
    (call,) = calls_of(run)
    assert (run.status, call.status, call.result["details"]) == ("completed", "failed", {"code": "tool_timeout"})


async def test_huge_search_response_is_truncated(harness: WorkerHarness, settings):
    hits = {"results": [{"title": f"中{n}" * 2000, "url": f"https://{n}.example/", "content": "中" * 20_000} for n in range(10)]}
    async with http_server({"/search": http.json_response(hits)}) as there:
        settings.SEARXNG_URL = there.url
        run = await harness.answer(asks("web_search", '"query":"q","count":10'))
    (call,) = calls_of(run)
    assert (run.status, call.status) == ("completed", "finished")
    assert len(call.result["content"][0]["text"].encode()) <= 100 * 1024
    assert "<<<end of outside" in call.result["content"][0]["text"]


async def test_huge_page_is_truncated_within_its_envelope(harness: WorkerHarness):
    async with http_server({"/": http.Response(text="中" * 3_000_000)}) as there:
        run = await harness.answer(asks("web_fetch", f'"url":"{there.url}","max_chars":9999999'))
    (call,) = calls_of(run)
    text = call.result["content"][0]["text"]
    assert len(text.encode()) <= 100 * 1024
    assert "<<<end of outside" in text
    assert "characters are shown]" in text
    assert call.result["details"]["truncated"] is True


async def test_internal_addresses_cannot_be_fetched(harness: WorkerHarness, settings):
    settings.FETCH_ALLOW = Allowlist()
    async with http_server({"/": http.Response(text="inside")}) as there:
        run = await harness.answer(asks("web_fetch", f'"url":"{there.url}"'))
        assert there.requests == []
    assert calls_of(run)[0].is_error
    assert "only public addresses can be fetched" in seen_by_the_model(harness)
