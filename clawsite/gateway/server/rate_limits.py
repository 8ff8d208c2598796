"""How much one process takes from whom: requests of a connection and of an account, and sockets that have not said who they are.

In memory and per process. Wrong credentials are another matter: they are counted in rows, by `accounts.throttle`.
"""

import time
from collections import Counter
from collections.abc import Callable

from clawsite.gateway.protocol import limits


class Bucket:
    """So many requests a second, and a burst of more."""

    def __init__(self, rate: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._now = rate, burst, now
        self._left, self._at = burst, now()

    def wait_ms(self) -> int:
        """Take one; 0 when there was one, otherwise how long until there is."""
        now = self._now()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return 0
        return int((1 - self._left) / self._rate * 1000) + 1


class RateLimits:
    def __init__(self) -> None:
        self._account_buckets: dict[int, Bucket] = {}  # kept: a few hundred bytes for each account that has come
        self._handshakes: Counter[str] = Counter()

    def of_account(self, user_pk: int) -> Bucket:
        """One bucket for all connections of an account, and for its HTTP requests."""
        bucket = self._account_buckets.get(user_pk)
        if bucket is None:
            bucket = self._account_buckets[user_pk] = Bucket(limits.account_requests_per_second(), limits.account_requests_burst())
        return bucket

    def knock(self, address: str) -> bool:
        """Somebody stands at the door, until `entered`; False when too many of this address do."""
        self._handshakes[address] += 1
        return self._handshakes[address] <= limits.max_handshakes_per_address()

    def end_handshake(self, address: str) -> None:
        """Let in, or gone again."""
        self._handshakes[address] -= 1
        if self._handshakes[address] <= 0:
            del self._handshakes[address]
