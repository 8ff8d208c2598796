"""Rate limits of one process: requests per connection and per account, and unfinished handshakes per address.

Kept in memory, per process. Wrong credentials are counted in the database, by `accounts.sign_in.throttle`.
"""

import time
from collections import Counter
from collections.abc import Callable

from clawsite.gateway.protocol import limits


class Bucket:
    """A token bucket with a rate per second and a burst size."""

    def __init__(self, rate: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._now = rate, burst, now
        self._left, self._at = burst, now()

    def wait_ms(self) -> int:
        """Take a token. Return 0 if there was one, otherwise the time until the next one is available."""
        now = self._now()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return 0
        return int((1 - self._left) / self._rate * 1000) + 1


class RateLimits:
    def __init__(self) -> None:
        self._account_buckets: dict[int, Bucket] = {}  # never removed: a few hundred bytes per account
        self._handshakes: Counter[str] = Counter()

    def of_account(self, user_pk: int) -> Bucket:
        """One bucket for all connections of an account, and for its HTTP requests."""
        bucket = self._account_buckets.get(user_pk)
        if bucket is None:
            bucket = self._account_buckets[user_pk] = Bucket(limits.account_requests_per_second(), limits.account_requests_burst())
        return bucket

    def begin_handshake(self, address: str) -> bool:
        """Count a handshake until `end_handshake`. Return False if this address has too many."""
        self._handshakes[address] += 1
        return self._handshakes[address] <= limits.max_handshakes_per_address()

    def end_handshake(self, address: str) -> None:
        """Stop counting a handshake that succeeded or ended."""
        self._handshakes[address] -= 1
        if self._handshakes[address] <= 0:
            del self._handshakes[address]
