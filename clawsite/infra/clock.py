"""The current time, also in whole milliseconds since 1970 as used on the wire."""

import sys
import time
from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def to_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def now_ms() -> int:
    return to_ms(now())


def boot_time() -> float:
    """Monotonic seconds that keep counting while the machine sleeps."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
