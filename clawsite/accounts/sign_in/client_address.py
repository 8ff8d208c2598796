"""Determine the network address a request counts for. Pure: the caller passes the number of trusted proxies."""

from ipaddress import IPv6Address, IPv6Network, ip_address


def canonicalize(address: str) -> str:
    """Normalize an address: IPv4-mapped IPv6 becomes IPv4; other IPv6 is reduced to its /64, the usual size per customer."""
    try:
        parsed = ip_address(address.strip().split("%", 1)[0])
    except ValueError:
        return "unknown"  # a Unix socket or a test client: they share one row instead of escaping the limit
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(IPv6Network((parsed, 64), strict=False))


def resolve_client_address(peer: str, forwarded_for: str, trusted_proxies: int) -> str:
    """Return the client's normalized address. Each trusted proxy appends one entry to X-Forwarded-For; the rest is untrusted."""
    if trusted_proxies > 0:
        hops = [hop.strip() for hop in forwarded_for.split(",") if hop.strip()]
        # With fewer entries than proxies, the request bypassed some of them, so the header can't be trusted at all.
        if len(hops) >= trusted_proxies and canonicalize(hops[-trusted_proxies]) != "unknown":
            return canonicalize(hops[-trusted_proxies])
    return canonicalize(peer)
