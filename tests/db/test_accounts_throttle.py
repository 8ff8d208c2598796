"""Waiting times after failed attempts: to whom they apply, how long they last, and that concurrency can't bypass them."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from clawsite.accounts.models import FailedSignIns, KnownAddress
from clawsite.accounts.sign_in import client_address, throttle
from clawsite.infra.errors import Unavailable

pytestmark = [pytest.mark.dialect, pytest.mark.usefixtures("forgotten")]

HERE, THERE = "192.0.2.7", "198.51.100.9"


@pytest.fixture
def forgotten(database: None) -> None:
    FailedSignIns.objects.all().delete()
    KnownAddress.objects.all().delete()


def waits(address: str, account: str = "") -> float:
    """Return the waiting time in seconds, 0 if an attempt is allowed."""
    try:
        throttle.check(address, account)
    except Unavailable as error:
        return (error.retry_after_ms or 0) / 1000
    return 0.0


def fail(times: int, address: str = HERE, account: str = "") -> None:
    for _ in range(times):
        throttle.record_failure(address, account)


def later(seconds: float) -> None:
    """Move all recorded failures this far into the past."""
    for row in FailedSignIns.objects.all():
        row.last_failed_at -= timedelta(seconds=seconds)
        row.save()


def test_wait_doubles_after_five_free_failures() -> None:
    fail(5)
    assert waits(HERE) == 0
    for expected in (2, 4, 8, 16, 32):
        fail(1)
        assert expected - 1 < waits(HERE) <= expected


def test_wait_expires_on_its_own() -> None:
    fail(7)
    assert waits(HERE) > 0
    later(4)
    assert waits(HERE) == 0


def test_wait_grows_up_to_maximum() -> None:
    waits_in_order = [throttle.wait_seconds(failures, 900) for failures in range(5000)]
    assert waits_in_order == sorted(waits_in_order)
    assert (waits_in_order[5], waits_in_order[6], waits_in_order[-1]) == (0, 2, 900)


def test_maximum_wait_does_not_reset_free_attempts() -> None:
    fail(20)
    later(901)
    assert waits(HERE) == 0
    fail(1)
    assert waits(HERE) > 800


def test_failures_expire_after_twenty_quiet_minutes() -> None:
    fail(20)
    later(20 * 60 + 1)
    fail(1)
    assert FailedSignIns.objects.get().failures == 1


@pytest.mark.parametrize(
    ("written", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::ffff:c000:207", "192.0.2.7"),
        ("0:0:0:0:0:FFFF:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", "unknown"),
        ("testclient", "unknown"),
        ("192.0.2.007", "unknown"),
    ],
)
def test_client_address_is_canonicalized(written: str, counted: str) -> None:
    assert client_address.canonicalize(written) == counted


def test_equivalent_address_spellings_share_one_counter() -> None:
    fail(6, "::ffff:192.0.2.7")
    assert waits("192.0.2.7") > 0
    fail(6, "2001:db8:1:2::1")
    assert waits("2001:db8:1:2:ffff::9") > 0
    assert waits("2001:db8:1:3::1") == 0


@pytest.mark.parametrize(
    ("forwarded", "proxies", "counted"),
    [
        ("203.0.113.5", 0, HERE),
        ("203.0.113.5", 1, "203.0.113.5"),
        ("6.6.6.6, 203.0.113.5", 1, "203.0.113.5"),
        ("6.6.6.6, 203.0.113.5, 10.0.0.1", 2, "203.0.113.5"),
        ("203.0.113.5", 2, HERE),
        ("", 1, HERE),
        ("nonsense", 1, HERE),
    ],
)
def test_forwarded_addresses_are_trusted_only_from_trusted_proxies(forwarded: str, proxies: int, counted: str) -> None:
    assert client_address.resolve_client_address(HERE, forwarded, proxies) == counted


def test_distributed_guessing_delays_account_one_minute_at_most() -> None:
    for n in range(40):
        throttle.record_failure(f"203.0.113.{n}", "Ada")
    assert 50 < waits(THERE, " ada ") <= 60
    assert waits(THERE, "grace") == 0


def test_distributed_guessing_does_not_delay_owners_known_address() -> None:
    throttle.check_and_count(THERE, "ada")
    throttle.record_success(THERE, "ada", admitted=True)
    for n in range(40):
        throttle.record_failure(f"203.0.113.{n}", "ada")
    assert waits("203.0.113.99", "ada") > 0
    assert waits(THERE, "ada") == 0


def test_success_clears_account_counter_but_not_address() -> None:
    fail(6, HERE, "ada")
    throttle.record_success(HERE, "ada")
    assert waits(THERE, "ada") == 0
    assert waits(HERE, "ada") > 0


def test_own_sign_in_does_not_reset_address_failures() -> None:
    for _ in range(4):
        throttle.record_failure(HERE, "ada")
        throttle.check_and_count(HERE, "mallory")
        throttle.record_success(HERE, "mallory", admitted=True)
    fail(2, HERE, "ada")
    assert waits(HERE) > 0


def test_attempted_usernames_are_not_stored() -> None:
    throttle.record_failure(HERE, "hunter2")
    assert not FailedSignIns.objects.filter(subject__icontains="hunter2").exists()


def at_once(count: int, work: Callable[[], object]) -> list[object]:
    """Run the function in this many threads at the same time, each with its own connection."""
    together = threading.Barrier(count)

    def one(_number: int) -> object:
        try:
            together.wait()
            return work()
        except Unavailable:
            return None
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_concurrent_failures_are_all_counted() -> None:
    at_once(12, lambda: throttle.record_failure(HERE, "ada"))
    assert sorted(FailedSignIns.objects.values_list("failures", flat=True)) == [12, 12]


def test_concurrent_guesses_cannot_exceed_free_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = throttle._raise_if_waiting

    def slowly(*question: Any) -> None:
        judged(*question)
        time.sleep(0.01)  # widens the gap between the check and the count, if there is one

    monkeypatch.setattr(throttle, "_raise_if_waiting", slowly)

    def guess() -> bool:
        throttle.check_and_count(HERE, "ada")
        return True

    admitted = at_once(20, guess).count(True)
    assert admitted == 6  # five free attempts, and the sixth, after which the wait begins


def test_stale_throttle_rows_are_removed() -> None:
    fail(1, "203.0.113.1")
    FailedSignIns.objects.update(last_failed_at=timezone.now() - timedelta(days=1))
    fail(1, HERE)
    assert FailedSignIns.objects.count() == 1
