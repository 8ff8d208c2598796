"""The fetch client against real servers: where it connects, what it follows, what it sends."""

import ssl

import pytest
import trustme
from aiohttp import web

from clawsite.infra.fetch import client
from clawsite.infra.fetch.client import Allowlist, FetchDenied, FetchFailed, fetch
from tests.harness.http_servers import FakeResolver, http_server, redirect_to, text_response

HERE = Allowlist.parse("127.0.0.0/8")
NOWHERE = Allowlist()


@pytest.fixture
def names(monkeypatch):
    """Create a test's DNS resolver: names(good__test="127.0.0.1")."""

    def make(**answers) -> FakeResolver:
        found = FakeResolver(**answers)
        monkeypatch.setattr(client, "resolve", found.resolve)
        return found

    return make


async def rule_of(url: str, **options) -> str:
    with pytest.raises(FetchDenied) as refused:
        await fetch(url, **options)
    return refused.value.rule


async def test_response_includes_status_headers_and_body():
    async with http_server({"/a": web.Response(status=201, text="héllo", headers={"x-one": "1"})}) as there:
        answer = await fetch(f"{there.url}/a?q=ä#part", allow=there.allow)
    assert (answer.url, answer.status, answer.body.decode()) == (f"{there.url}/a?q=%C3%A4", 201, "héllo")
    assert (answer.content_type, answer.headers["x-one"], answer.truncated) == ("text/plain", "1", False)


# Where it may connect


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "LOCALHOST.", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "127.0.0.2"]
)
async def test_loopback_address_is_not_fetched(host):
    async with http_server({"/": text_response("inside")}) as there:
        assert await rule_of(f"http://{host}:{there.port}/", allow=NOWHERE) == "address"
        assert there.requests == []


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.0.0.1"])
async def test_odd_loopback_spelling_is_refused_even_if_allowed(host):
    async with http_server({"/": text_response("inside")}) as there:
        assert await rule_of(f"http://{host}:{there.port}/", allow=HERE) == "host"


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::ffff:169.254.169.254", "100.64.0.1"]
)
async def test_name_resolving_to_internal_address_is_refused(names, address):
    names(evil__test=address)
    with pytest.raises(FetchDenied, match=r"evil\.test resolves to .*only public addresses") as refused:
        await fetch("http://evil.test./latest/meta-data/", allow=NOWHERE)
    assert address not in str(refused.value)


async def test_name_with_any_internal_address_is_refused(names):
    names(half__test="93.184.216.34 127.0.0.1")
    assert await rule_of("http://half.test/", allow=NOWHERE) == "address"


async def test_allowlist_entry_applies_to_its_port_only(names):
    names(wiki__test="127.0.0.1", other__test="127.0.0.1")
    async with http_server({"/": text_response("wiki")}) as there, http_server({"/": text_response("else")}) as neighbour:
        allow = Allowlist.parse(f"wiki.test:{there.port}")
        assert (await fetch(there.at("WIKI.test."), allow=allow)).body == b"wiki"
        assert await rule_of(neighbour.at("wiki.test"), allow=allow) == "address"
        assert await rule_of(there.at("other.test"), allow=allow) == "address"
        assert await rule_of(there.url, allow=allow) == "address"
        assert neighbour.requests == []


async def test_configured_allowlist_is_used_by_default(settings):
    async with http_server({"/": text_response("hello")}) as there:
        assert await rule_of(there.url) == "address"
        settings.FETCH_ALLOW = there.allow
        assert (await fetch(there.url)).body == b"hello"


async def test_disabled_address_check_reaches_internal_server(monkeypatch):
    """Without the rule, the internal address is reached: nothing else prevents it."""
    async with http_server({"/": text_response("inside")}) as there:
        monkeypatch.setattr(client, "why_not_public", lambda address: "")
        assert (await fetch(there.url, allow=NOWHERE)).body == b"inside"


# Rebinding: 127.0.0.1 stands for the address that passed the check, 127.0.0.2 for the one that must not be reached.


@pytest.fixture
async def rebinding(names):
    async with (
        http_server({"/": text_response("checked")}) as good,
        http_server({"/": text_response("inside")}, host="127.0.0.2", port=good.port) as inside,
    ):
        yield names(rebind__test=["127.0.0.1", "127.0.0.2"]), good, inside, Allowlist.parse("127.0.0.1/32")


async def test_connection_uses_the_checked_address(rebinding):
    names, good, inside, allow = rebinding
    answer = await fetch(good.at("rebind.test"), allow=allow)
    assert (answer.body, names.asked, inside.requests) == (b"checked", ["rebind.test"], [])
    assert good.requests[0].headers["host"] == f"rebind.test:{good.port}"
    assert await rule_of(good.at("rebind.test"), allow=allow) == "address"


async def test_client_resolving_again_reaches_internal_server(rebinding, monkeypatch):
    """A client that resolves the name again when it connects reaches the internal address."""
    names, good, _, allow = rebinding

    class AsksAgain:
        async def resolve(self, host, port=0, family=0):
            (address,) = await names.resolve(host, port)
            return [{"hostname": host, "host": str(address), "port": port, "family": 2, "proto": 6, "flags": 0}]

        async def close(self): ...

    monkeypatch.setattr(client, "_static_resolver", lambda addresses: AsksAgain())
    assert (await fetch(good.at("rebind.test"), allow=allow)).body == b"inside"


async def test_unreachable_address_falls_back_to_the_next(names):
    async with http_server({"/": text_response("second")}) as there:
        names(two__test="127.0.0.9 127.0.0.1")
        assert (await fetch(there.at("two.test"), allow=HERE)).body == b"second"


# Redirects


async def test_each_redirect_is_checked_again(names):
    names(good__test="127.0.0.1", evil__test="127.0.0.1")
    async with http_server({"/": text_response("inside")}) as inside, http_server(lambda request: hop(request)) as there:
        allow = Allowlist.parse(f"good.test:{there.port}")

        async def hop(request):
            return redirect_to(
                {"/ip": inside.url, "/name": inside.at("evil.test"), "/login": "http://a:b@good.test/"}[request.path]
            )

        assert await rule_of(there.at("good.test", "/ip"), allow=allow) == "address"
        assert await rule_of(there.at("good.test", "/name"), allow=allow) == "address"
        assert await rule_of(there.at("good.test", "/login"), allow=allow) == "credentials"
        assert inside.requests == []


@pytest.mark.parametrize("location", ["file:///etc/passwd", "gopher://127.0.0.1/", "http://2130706433/", "http://h\\@i/"])
async def test_redirect_to_non_http_url_is_refused(location):
    async with http_server({"/": redirect_to(location)}) as there:
        assert await rule_of(there.url, allow=HERE) in ("scheme", "host", "url")


async def test_number_of_redirects_is_limited():
    async def next_one(request):
        number = int(request.path.strip("/"))
        return text_response("there") if number == 4 else redirect_to(f"/{number + 1}")

    async with http_server(next_one) as there:
        assert (await fetch(f"{there.url}/1", allow=there.allow)).url == f"{there.url}/4"
        assert await rule_of(f"{there.url}/0", allow=there.allow) == "redirect"
        assert await rule_of(f"{there.url}/3", allow=there.allow, redirects=0) == "redirect"
        assert (await fetch(f"{there.url}/0", allow=there.allow, redirects=4)).body == b"there"


async def test_redirect_without_location_is_returned_as_response():
    async with http_server({"/": web.Response(status=302, text="where to?")}) as there:
        assert (await fetch(there.url, allow=there.allow)).body == b"where to?"


PRIVATE = {"Authorization": "Bearer s3cret", "Cookie": "a=b", "X-Subscription-Token": "s3cret", "Accept-Language": "de"}


async def test_credentials_are_not_sent_to_another_origin():
    async with (
        http_server({"/": text_response("there")}) as other,
        http_server({"/": redirect_to("/again"), "/again": redirect_to(other.url)}) as first,
    ):
        await fetch(first.url, allow=HERE, headers=PRIVATE)
        same, again = first.requests
        (elsewhere,) = other.requests
    for name in ("authorization", "cookie", "x-subscription-token"):
        assert same.headers[name] == again.headers[name]
        assert name not in elsewhere.headers
    assert elsewhere.headers["accept-language"] == "de"


async def test_credentials_leak_if_cross_origin_headers_allow_them(monkeypatch):
    monkeypatch.setattr(client, "CROSS_ORIGIN_HEADERS", {name.lower() for name in PRIVATE})
    async with http_server({"/": text_response("there")}) as other, http_server({"/": redirect_to(other.url)}) as first:
        await fetch(first.url, allow=HERE, headers=PRIVATE)
        assert other.requests[0].headers["authorization"] == "Bearer s3cret"


@pytest.mark.parametrize(("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")])
async def test_body_is_resent_only_to_its_origin(status, method):
    async with (
        http_server({"/": text_response("there")}) as other,
        http_server(
            {"/": redirect_to("/b", status), "/b": text_response("same"), "/away": redirect_to(other.url, status)}
        ) as there,
    ):
        await fetch(there.url, method="POST", body=b"s3cret", allow=HERE)
        second = there.requests[1]
        assert (second.method, await second.read()) == (method, b"s3cret" if method == "POST" else b"")
        if method == "POST":
            assert await rule_of(f"{there.url}/away", method="POST", body=b"s3cret", allow=HERE) == "redirect"
            assert other.requests == []


async def test_cookies_are_not_kept_between_redirects():
    async with http_server(
        {"/": web.Response(status=302, headers={"location": "/b", "set-cookie": "a=b"}), "/b": text_response("x")}
    ) as there:
        await fetch(there.url, allow=there.allow)
        assert "cookie" not in there.requests[1].headers


# TLS


@pytest.fixture
def authority(monkeypatch):
    found = trustme.CA()
    context = ssl.create_default_context()
    found.configure_trust(context)
    monkeypatch.setattr(client, "tls_context", lambda: context)
    return found


def server_tls(authority: trustme.CA, *hosts: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*hosts).configure_cert(context)
    return context


async def test_certificate_is_checked_against_the_host_name(names, authority):
    names(good__test="127.0.0.1", other__test="127.0.0.1")
    tls, asked = server_tls(authority, "good.test"), []
    tls.sni_callback = lambda connection, name, context: asked.append(name)
    async with http_server({"/": text_response("secure")}, tls=tls) as there:
        assert (await fetch(there.at("GOOD.test."), allow=HERE)).body == b"secure"
        assert asked == ["good.test"]
        for wrong in (there.at("other.test"), there.url):
            with pytest.raises(FetchFailed, match="certificate of .* was not accepted: .*(mismatch|not valid)"):
                await fetch(wrong, allow=HERE)
        assert len(there.requests) == 1


async def test_untrusted_certificate_is_rejected(names, authority):
    names(good__test="127.0.0.1")
    async with http_server({"/": text_response("secure")}, tls=server_tls(trustme.CA(), "good.test")) as there:
        with pytest.raises(FetchFailed, match="was not accepted"):
            await fetch(there.at("good.test"), allow=HERE)


async def test_disabled_certificate_check_accepts_wrong_host(names, authority, monkeypatch):
    names(other__test="127.0.0.1")
    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    monkeypatch.setattr(client, "tls_context", lambda: blind)
    async with http_server({"/": text_response("secure")}, tls=server_tls(authority, "good.test")) as there:
        assert (await fetch(there.at("other.test"), allow=HERE)).body == b"secure"


async def test_https_to_http_redirect_with_credentials_is_refused(names, authority):
    names(good__test="127.0.0.1")
    async with (
        http_server({"/": text_response("plain")}) as plain,
        http_server({"/": redirect_to(plain.url)}, tls=server_tls(authority, "good.test")) as there,
    ):
        assert await rule_of(there.at("good.test"), allow=HERE, headers={"Authorization": "Bearer s3cret"}) == "redirect"
        assert plain.requests == []
        assert (await fetch(there.at("good.test"), allow=HERE)).body == b"plain"
