"""Decide which addresses a fetch may reach, including those the operator allows. Pure: no network, no Django.

The tables come from IANA's special-purpose registries. The standard library's `is_global` differs between supported Python
versions (before 3.11.10 it treated parts of 192.0.0.0/29 and Teredo as public).
"""

import ipaddress
import re
from dataclasses import dataclass

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

DENIED_V4 = tuple(
    (ipaddress.IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "an unspecified address"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "a carrier's private address"),  # including Alibaba's metadata service
        ("127.0.0.0/8", "a loopback address"),
        ("168.63.129.16/32", "a cloud host service"),  # Azure: looks public but serves the host itself
        ("169.254.0.0/16", "a link-local address"),  # including the metadata services of most clouds
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "a reserved address"),  # including Oracle's metadata service
        ("192.0.2.0/24", "a documentation address"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "a private address"),
        ("198.18.0.0/15", "a benchmark address"),
        ("198.51.100.0/24", "a documentation address"),
        ("203.0.113.0/24", "a documentation address"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
    )
)
# The range that all public IPv6 addresses are allocated from. Everything else is denied: loopback, link-local, unique local,
# multicast, IPv4-mapped, NAT64 (64:ff9b::/96 and 64:ff9b:1::/48).
PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
DENIED_V6 = tuple(
    (ipaddress.IPv6Network(network), kind)
    for network, kind in (
        ("2001::/32", "a Teredo address"),
        ("2001::/23", "a reserved address"),
        ("2001:db8::/32", "a documentation address"),
        ("2002::/16", "a 6to4 address"),
        ("3fff::/20", "a documentation address"),
    )
)
SPECIAL_V6 = tuple(
    (ipaddress.IPv6Network(network), kind)
    for network, kind in (
        ("::1/128", "a loopback address"),
        ("::/128", "an unspecified address"),
        ("::ffff:0:0/96", "an IPv4-mapped address"),
        ("64:ff9b::/96", "a NAT64 address"),
        ("64:ff9b:1::/48", "a NAT64 address"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("ff00::/8", "a multicast address"),
    )
)

HOST_NAME_PATTERN = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
MAX_HOST_NAME_LENGTH = 253
# Resolvers treat a host as an IPv4 address, however spelled, if its last part is decimal digits or 0x and hex digits.
NUMERIC_LAST_PART = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")


def why_not_public(address: IpAddress) -> str:
    """Return the kind of a non-public address, or "" if it is public."""
    if isinstance(address, ipaddress.IPv4Address):
        return _find_kind(address, DENIED_V4)
    if address in PUBLIC_V6:
        return _find_kind(address, DENIED_V6)
    return _find_kind(address, SPECIAL_V6) or "a reserved address"


def _find_kind(address: IpAddress, kinds: tuple[tuple[IpNetwork, str], ...]) -> str:
    return next((kind for network, kind in kinds if address in network), "")


def parse_literal_address(host: str) -> IpAddress | None:
    """Return the address a host spells out, or None for a name. Raise ValueError for unusual spellings."""
    if ":" in host:
        address = ipaddress.IPv6Address(host)
        if address.scope_id:
            raise ValueError("an IPv6 address with a zone refers to a local interface")
        return address
    if not NUMERIC_LAST_PART.fullmatch(host):
        return None
    try:
        return ipaddress.IPv4Address(host)
    except ValueError:
        raise ValueError("write an IPv4 address as four decimal numbers without leading zeros") from None


def normalize_host(text: str) -> str:
    """Normalize a host for comparison, resolution and certificates: lowercase, no final dot, canonical addresses."""
    host = text.lower().removesuffix(".")
    address = parse_literal_address(host)
    if address is not None:
        return str(address)
    if len(host) > MAX_HOST_NAME_LENGTH or not HOST_NAME_PATTERN.fullmatch(host):
        raise ValueError("not a valid host name")
    return host


@dataclass(frozen=True, slots=True)
class Allowlist:
    """Internal hosts and networks that may be fetched."""

    hosts: frozenset[tuple[str, int]] = frozenset()  # port 0 means any port
    networks: tuple[IpNetwork, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Allowlist":
        """Parse `searx.lan:8888, 127.0.0.1:8888, [::1]:8888, 10.0.5.0/24`. Raise ValueError for an invalid entry."""
        hosts: set[tuple[str, int]] = set()
        networks: list[IpNetwork] = []
        for entry in filter(None, (part.strip() for part in text.split(","))):
            try:
                if "/" in entry:
                    networks.append(ipaddress.ip_network(entry))
                else:
                    hosts.add(_parse_host_and_port(entry))
            except ValueError as error:
                raise ValueError(f"{entry!r} is not a valid host, host:port or network: {error}") from None
        return cls(frozenset(hosts), tuple(networks))

    def allows(self, host: str, port: int, address: IpAddress) -> bool:
        """Hosts are compared as written in the URL: an address entry doesn't allow a name that resolves to it."""
        return (host, port) in self.hosts or (host, 0) in self.hosts or any(address in network for network in self.networks)


def _parse_host_and_port(entry: str) -> tuple[str, int]:
    bracketed = re.fullmatch(r"\[([^]]+)\](?::([0-9]+))?", entry)
    plain = re.fullmatch(r"([^:\[\]]+)(?::([0-9]+))?", entry)
    match = bracketed or plain
    if match is None:
        raise ValueError("write an IPv6 address in brackets")
    port = int(match[2] or 0)
    if match[2] and not 0 < port < 65536:
        raise ValueError("a port must be a number from 1 to 65535")
    name = match[1] if match[1].isascii() else match[1].encode("idna").decode()
    return normalize_host(name), port
