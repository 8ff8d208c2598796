"""Limits of the gateway: sizes, rates and times. hello-ok has those that a client must know in `policy`."""

from django.conf import settings

MAX_FIRST_FRAME_BYTES = 65_536  # before `connect`, when the client is not authenticated
MAX_FRAME_BYTES = 26_214_400
MAX_BUFFERED_BYTES = 1 << 20
MAX_BUFFERED_FRAMES = 1_000
# Responses are paged to at most three quarters of the buffer, so that there is room for some events.
MAX_REPLY_BYTES = 768 << 10

TICK_SECONDS = 15.0  # clients consider the connection stalled after two of these without traffic
HEALTH_SECONDS = 60.0
PRESENCE_PAUSE_SECONDS = 1.0  # minimum time between presence events, however many clients connect and disconnect
SEEN_SECONDS = 300.0  # how often browsers with open pages are recorded as seen
RECHECK_SECONDS = 60.0  # a socket's account, token or sign-in is rechecked at least this often


MAX_REQUESTS_IN_FLIGHT = 64
SLOT_SECONDS = 2.0  # a request waits this long for a free slot before it is rejected
MAX_FOLLOWED = 2_000  # sessions, and keys of future sessions, that one socket can follow
MAX_FOLLOW_UPS = 1_000  # pending second responses of `agent` per socket

CLOSE_SECONDS = 10.0  # how long a client that doesn't read has to receive the close frame


def handshake_seconds() -> float:
    """15 s by default, as OpenClaw's clients expect."""
    return settings.GATEWAY_HANDSHAKE_SECONDS


def requests_per_second() -> float:
    """Protects against floods of cheap requests; the number in flight limits expensive ones."""
    return settings.GATEWAY_REQUESTS_PER_SECOND


def requests_burst() -> float:
    return settings.GATEWAY_REQUESTS_BURST


def account_requests_per_second() -> float:
    """For all sockets of an account in one process, so that more sockets don't raise the limit."""
    return settings.GATEWAY_ACCOUNT_REQUESTS_PER_SECOND


def account_requests_burst() -> float:
    return settings.GATEWAY_ACCOUNT_REQUESTS_BURST


def max_handshakes_per_address() -> int:
    """Unfinished handshakes per address. Enough for 1,000 clients behind one address that reconnect at the same time."""
    return settings.GATEWAY_KNOCKS_PER_ADDRESS
