"""Which addresses are public, how a host is parsed, and what an operator's allowlist permits."""

from ipaddress import ip_address

import pytest

from clawsite.infra.config import environment
from clawsite.infra.fetch import addresses
from clawsite.infra.fetch.addresses import Allowlist, normalize_host, why_not_public
from clawsite.infra.fetch.targets import FetchDenied, parse_target

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "172.32.0.1",
    "100.128.0.1",
    "192.0.1.1",
    "2606:4700::1111",
    "2a00:1450:4001::200e",
]
INTERNAL = {
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "::1": "loopback",
    "0.0.0.0": "unspecified",
    "0.1.2.3": "unspecified",
    "::": "unspecified",
    "10.0.0.1": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.1.1": "private",
    "fc00::1": "private",
    "fd00:ec2::254": "private",
    "169.254.169.254": "link-local",
    "fe80::1": "link-local",
    "100.64.0.1": "carrier",
    "100.100.100.200": "carrier",
    "168.63.129.16": "cloud",
    "192.0.0.192": "reserved",
    "198.18.0.1": "benchmark",
    "203.0.113.7": "documentation",
    "2001:db8::1": "documentation",
    "3fff::1": "documentation",
    "224.0.0.1": "multicast",
    "ff02::1": "multicast",
    "255.255.255.255": "reserved",
    "240.0.0.1": "reserved",
    "::ffff:127.0.0.1": "an IPv4-mapped address",
    "::ffff:8.8.8.8": "an IPv4-mapped address",
    "::127.0.0.1": "reserved",
    "64:ff9b::7f00:1": "NAT64",
    "64:ff9b:1::1": "NAT64",
    "2002:7f00:1::": "6to4",
    "2001:0:7f00:1::": "Teredo",
    "2001:20::1": "reserved",
    "fec0::1": "reserved",
    "5f00::1": "reserved",
    "4000::1": "reserved",
}


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address):
    assert why_not_public(ip_address(address)) == ""


@pytest.mark.parametrize(("address", "kind"), INTERNAL.items())
def test_non_public_address_is_refused_with_its_kind(address, kind):
    assert kind in why_not_public(ip_address(address))


def test_embedded_ipv4_passes_if_all_ipv6_is_public(monkeypatch):
    """If all of IPv6 were considered public, the embedded addresses would pass: the table is what stops them."""
    monkeypatch.setattr(addresses, "PUBLIC_V6", addresses.ipaddress.IPv6Network("::/0"))
    assert why_not_public(ip_address("64:ff9b::7f00:1")) == ""


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("EXAMPLE.com.", "example.com"),
        ("example.com", "example.com"),
        ("1.2.3.4.", "1.2.3.4"),
        ("::0001", "::1"),
        ("my_host", "my_host"),
        ("7zip.org", "7zip.org"),
        ("0x.example", "0x.example"),
    ],
)
def test_host_is_normalized_to_one_spelling(text, host):
    assert normalize_host(text) == host


@pytest.mark.parametrize(
    "text",
    [
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "127.1",
        "0177.0.0.1",
        "127.0.0.01",
        "0",
        "1.2.3",
        "1.2.3.4.5",
        "a.0x7f",
        "0x",
        "256.1.1.1",
    ],
)
def test_nonstandard_ipv4_spellings_are_refused(text):
    with pytest.raises(ValueError, match="four decimal numbers"):
        normalize_host(text)


@pytest.mark.parametrize(
    "text", ["", ".", "a..b", "a b", "a%2fb", "%6cocalhost", "a\\b", "x" * 64, "fe80::1%eth0", "a." * 130, "a@b", "é.example"]
)
def test_invalid_host_is_refused(text):
    with pytest.raises(ValueError):
        normalize_host(text)


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("ftp://example.com/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("//example.com/x", "scheme"),
        ("example.com", "scheme"),
        ("javascript:alert(1)", "scheme"),
        ("http:///x", "host"),
        ("http:/x", "host"),
        ("http://user:secret@example.com/", "credentials"),
        ("http://user@example.com/", "credentials"),
        ("http://evil.example\\@127.0.0.1/", "url"),
        ("http://example.com\n.evil.example/", "url"),
        ("http://example.com/\r\nx: y", "url"),
        ("http://example.com\0/", "url"),
        ("http://example.com:99999/", "url"),
        ("http://example.com:0/", "port"),
        ("http://example.com:25/", "port"),
        ("http://%31%32%37.0.0.1/", "host"),
        ("http://2130706433/", "host"),
        ("http://0x7f.1/", "host"),
        ("http://[fe80::1%25eth0]/", "host"),
        ("http://" + "x" * 9000, "url"),
    ],
)
def test_url_is_refused_with_the_matching_rule(url, rule):
    with pytest.raises(FetchDenied) as refused:
        parse_target(url)
    assert refused.value.rule == rule
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("HTTPS://Example.COM./a", "example.com"),
        ("http://bücher.example/", "xn--bcher-kva.example"),
        ("http://１２７.０.０.１/", "127.0.0.1"),  # full-width digits, parsed as digits and denied later
        ("http://[::ffff:127.0.0.1]/", "::ffff:7f00:1"),
    ],
)
def test_checked_host_equals_requested_host(url, host):
    target = parse_target(url)
    assert (target.host, target.url.raw_host) == (host, host)


def test_target_drops_the_fragment_and_has_a_port():
    target = parse_target("https://example.com/a?b=c#secret")
    assert (str(target.url), target.origin) == ("https://example.com/a?b=c", ("https", "example.com", 443))


def test_allowlist_matches_exactly_its_entries():
    allow = Allowlist.parse("Searx.LAN.:8888, wiki.lan, 127.0.0.1:8888, [::1]:9000, 10.0.5.0/24")
    inside, outside = ip_address("10.0.5.9"), ip_address("10.0.6.9")
    assert allow.allows("searx.lan", 8888, outside)
    assert not allow.allows("searx.lan", 8889, outside)
    assert not allow.allows("sub.searx.lan", 8888, outside)
    assert allow.allows("wiki.lan", 80, outside)
    assert allow.allows("wiki.lan", 4430, outside)
    assert allow.allows("::1", 9000, ip_address("::1"))
    assert allow.allows("anything.example", 80, inside)
    assert not allow.allows("anything.example", 80, outside)
    assert not allow.allows("localhost", 8888, ip_address("127.0.0.1"))
    assert not allow.allows("::ffff:a00:509", 80, ip_address("::ffff:10.0.5.9"))
    assert not Allowlist().allows("127.0.0.1", 80, ip_address("127.0.0.1"))


@pytest.mark.parametrize("entry", ["10.0.0.1/8", "host:0", "host:70000", "::1", "http://host", "a b", "127.1", "host:x", "*"])
def test_invalid_allowlist_entry_raises_settings_error(entry, monkeypatch):
    monkeypatch.setenv("CLAWSITE_FETCH_ALLOW", f"good.lan, {entry}")
    with pytest.raises(environment.SettingsError, match="CLAWSITE_FETCH_ALLOW"):
        environment.fetch_allowlist()


def test_allowlist_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("CLAWSITE_FETCH_ALLOW", " searx.lan:8888 ,")
    assert environment.fetch_allowlist() == Allowlist(frozenset({("searx.lan", 8888)}))
    monkeypatch.delenv("CLAWSITE_FETCH_ALLOW")
    assert environment.fetch_allowlist() == Allowlist()


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:8888", "https://searx.lan/searx/", "http://[::1]:8888"])
def test_searxng_url_is_read_from_the_environment(url, monkeypatch):
    monkeypatch.setenv("CLAWSITE_SEARXNG_URL", f" {url} ")
    assert environment.searxng_url() == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "searx.lan",
        "ftp://searx.lan",
        "http://",
        "http://a b",
        "http://h:x",
        "http://h:99999",
        "http://u:p@h",
        "http://h/?q=1",
        "http://[::",
    ],
)
def test_invalid_searxng_url_raises_settings_error(url, monkeypatch):
    monkeypatch.setenv("CLAWSITE_SEARXNG_URL", url)
    with pytest.raises(environment.SettingsError, match="CLAWSITE_SEARXNG_URL"):
        environment.searxng_url()
