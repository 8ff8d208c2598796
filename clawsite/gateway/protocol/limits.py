"""The numbers of the gateway: sizes, rates and times. Those a client must know are told in hello-ok under `policy`."""

from django.conf import settings

MAX_FIRST_FRAME_BYTES = 65_536  # before `connect`, when we do not know who is speaking
MAX_FRAME_BYTES = 26_214_400
MAX_BUFFERED_BYTES = 1 << 20
MAX_BUFFERED_FRAMES = 1_000
# A reply is paged so that it always fits beside some events: three quarters of the buffer.
MAX_REPLY_BYTES = 768 << 10

TICK_SECONDS = 15.0  # a client calls the connection stalled after two of these without traffic
HEALTH_SECONDS = 60.0
PRESENCE_PAUSE_SECONDS = 1.0  # at most one presence event in this time, however many come and go
SEEN_SECONDS = 300.0  # how often open pages count as their browser having been seen
RECHECK_SECONDS = 60.0  # a socket's account, token or sign-in is looked at again at least this often


MAX_REQUESTS_IN_FLIGHT = 64
SLOT_SECONDS = 2.0  # a burst waits so long for an answer to make room; only then is a request refused
MAX_FOLLOWED = 2_000  # sessions, and keys of sessions to come, that one socket may follow by name
MAX_FOLLOW_UPS = 1_000  # second answers of `agent` that one socket may wait for

CLOSE_SECONDS = 10.0  # how long a client that does not read may take to receive our close frame


def handshake_seconds() -> float:
    """15 s: what OpenClaw's clients allow as well."""
    return settings.GATEWAY_HANDSHAKE_SECONDS


def requests_per_second() -> float:
    """A guard against floods of cheap requests; dear ones are held back by the number in flight."""
    return settings.GATEWAY_REQUESTS_PER_SECOND


def requests_burst() -> float:
    return settings.GATEWAY_REQUESTS_BURST


def account_requests_per_second() -> float:
    """Over all sockets of an account in one process: many sockets are no way around the limit of one."""
    return settings.GATEWAY_ACCOUNT_REQUESTS_PER_SECOND


def account_requests_burst() -> float:
    return settings.GATEWAY_ACCOUNT_REQUESTS_BURST


def max_handshakes_per_address() -> int:
    """Sockets of one address that have not connected yet. A storm of 1,000 clients behind one address fits."""
    return settings.GATEWAY_KNOCKS_PER_ADDRESS
