"""Limits of the fetch client on bytes, header and time; its error messages; and what these don't reveal."""

import asyncio
import gzip
import logging
import zlib

import pytest
from aiohttp import web

from clawsite.infra.fetch import body as fetch_body
from clawsite.infra.fetch import client
from clawsite.infra.fetch.client import Allowlist, FetchDenied, FetchFailed, FetchResponse, fetch
from tests.harness.http_servers import drip_bytes, http_server, never_respond, raw_server, redirect_to, text_response

NOWHERE = Allowlist()


async def test_long_response_is_truncated_at_the_size_limit():
    async def endless(request):
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 10_000)

    async with http_server(endless) as there:
        answer = await fetch(there.url, allow=there.allow, max_bytes=25_000)
        assert (len(answer.body), answer.truncated) == (25_000, True)
        await asyncio.wait_for(there.left.wait(), 20)


@pytest.mark.parametrize(("size", "truncated"), [(999, False), (1000, False), (1001, True)])
@pytest.mark.parametrize("zipped", [False, True])
async def test_size_limit_is_exact(size, truncated, zipped):
    body = bytes(range(256)) * 8
    packed = gzip.compress(body[:size]) if zipped else body[:size]
    async with http_server({"/": web.Response(body=packed, headers={"content-encoding": "gzip"} if zipped else {})}) as there:
        answer = await fetch(there.url, allow=there.allow, max_bytes=1000)
    assert (answer.body, answer.truncated) == (body[: min(size, 1000)], truncated)


async def test_decompression_bomb_stops_at_the_size_limit(monkeypatch):
    unpacked = []

    class Watched:
        def __init__(self, **options):
            self.real = zlib.decompressobj(**options)

        def __getattr__(self, name):
            return getattr(self.real, name)

        def decompress(self, data, max_length):
            found = self.real.decompress(data, max_length)
            unpacked.append(len(found))
            return found

    bomb = gzip.compress(b"\0" * 50_000_000)
    assert len(bomb) < 100_000
    monkeypatch.setattr(fetch_body, "zlib", type("Zlib", (), {"decompressobj": Watched, "error": zlib.error}))
    async with http_server({"/": web.Response(body=bomb, headers={"content-encoding": "gzip"})}) as there:
        answer = await fetch(there.url, allow=there.allow, max_bytes=100_000)
    assert (len(answer.body), answer.truncated) == (100_000, True)
    assert sum(unpacked) == 100_001


async def test_endless_stream_decompressing_to_zero_bytes_is_stopped():
    async def nothing(request):
        response = web.StreamResponse(headers={"content-encoding": "gzip"})
        await response.prepare(request)
        await response.write(zlib.compressobj(wbits=31).flush(zlib.Z_FULL_FLUSH))
        while True:
            await response.write(b"\x00\x00\x00\xff\xff" * 200)  # a stored block without content

    async with http_server(nothing) as there:
        answer = await fetch(there.url, allow=there.allow, max_bytes=5_000)
    assert (answer.body, answer.truncated) == (b"", True)


@pytest.mark.parametrize(
    ("encoding", "body", "words"),
    [("gzip", b"no gzip", "is corrupt"), ("gzip", gzip.compress(b"x" * 99)[:-9], "is incomplete"), ("br", b"x", "not requested")],
    ids=["no gzip", "half", "brotli"],
)
async def test_undecodable_body_raises_fetch_failed(encoding, body, words):
    async with http_server({"/": web.Response(body=body, headers={"content-encoding": encoding})}) as there:
        with pytest.raises(FetchFailed, match=words):
            await fetch(there.url, allow=there.allow)


@pytest.mark.parametrize(
    "header",
    [b"x: " + b"y" * 20_000, b"\r\n".join(b"x%d: y" % number for number in range(1000))],
    ids=["one long line", "many lines"],
)
async def test_endless_header_is_cut_off(header):
    async def reply(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n" + header + b"\r\n\r\n")

    async with raw_server(reply) as there:
        with pytest.raises(FetchFailed, match="invalid HTTP response"):
            await fetch(there.url, allow=there.allow)


@pytest.mark.parametrize("answer", [drip_bytes, never_respond], ids=["drip", "silence"])
async def test_timeout_covers_the_whole_request(answer):
    async with http_server(answer) as there:
        with pytest.raises(FetchFailed, match=r"no complete response within 0\.3 s"):
            await fetch(there.url, allow=there.allow, timeout_s=0.3)
        await asyncio.wait_for(there.left.wait(), 20)


async def test_slow_name_resolution_counts_toward_the_timeout(monkeypatch):
    async def slow(host, port):
        await asyncio.Event().wait()

    monkeypatch.setattr(client, "resolve", slow)
    with pytest.raises(FetchFailed, match="within"):
        await fetch("http://slow.test/", timeout_s=0.1, allow=NOWHERE)


async def test_cancelling_closes_the_connection(eventually):
    async with http_server(drip_bytes) as there:
        task = asyncio.create_task(fetch(there.url, allow=there.allow))
        await eventually(lambda: there.requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(there.left.wait(), 20)


# Error messages, and what they don't reveal


async def test_unresolvable_name_and_refused_connection_are_reported():
    with pytest.raises(FetchFailed, match="can.t be resolved"):
        await fetch("http://no-such-name.invalid/", allow=NOWHERE)
    async with http_server({}) as there:
        pass
    with pytest.raises(FetchFailed, match=r"no connection to 127\.0\.0\.1"):
        await fetch(there.url, allow=there.allow)


@pytest.mark.parametrize(
    "reply", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", b"SSH-2.0-OpenSSH\r\n\r\n"], ids=["nothing", "half", "ssh"]
)
async def test_truncated_response_is_a_failure(reply):
    async def answer(reader, writer):
        writer.write(reply)

    async with raw_server(answer) as there:
        with pytest.raises(FetchFailed, match="closed the connection|invalid HTTP response"):
            await fetch(there.url, allow=there.allow)


async def test_proxy_from_the_environment_is_not_used(monkeypatch):
    async with http_server({"/": text_response("direct")}) as there, http_server({"/": text_response("proxy")}) as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert (await fetch(there.url, allow=there.allow)).body == b"direct"
        assert proxy.requests == []


async def test_urls_and_secrets_are_not_logged(caplog):
    caplog.set_level(logging.DEBUG)
    async with http_server({"/": redirect_to("/b?token=s3cret"), "/b": text_response("x")}) as there:
        await fetch(f"{there.url}/?token=s3cret", allow=there.allow, headers={"Authorization": "s3cret"})
        for bad in (f"{there.url}/?token=s3cret", "http://s3cret@h/", "http://h/\ns3cret"):
            with pytest.raises(FetchDenied) as refused:
                await fetch(bad, allow=NOWHERE)
            assert "s3cret" not in str(refused.value)
    ours = [record.getMessage() for record in caplog.records if record.name.startswith(("clawsite", "aiohttp.client"))]
    assert any("rule address" in line for line in ours)
    assert not [line for line in ours if "s3cret" in line]


def test_content_type_is_parsed_without_parameters():
    assert FetchResponse("u", 200, {"content-type": "Text/HTML; charset=x"}, b"").content_type == "text/html"
    assert FetchResponse("u", 200, {}, b"").content_type == ""
