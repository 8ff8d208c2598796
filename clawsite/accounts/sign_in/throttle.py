"""How long a client must wait after failed authentication. Checked before any secret.

Counted in the database, per address and per account, so that all processes agree. Five failures are free; each further one
doubles the wait. This module does not authenticate, and it never locks an account permanently.
"""

import math
import unicodedata
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from clawsite.accounts.models import FailedSignIns, KnownAddress
from clawsite.accounts.sign_in import client_address as addresses
from clawsite.infra.errors import TooManyAttempts

FREE_FAILURES = 5
MAX_ADDRESS_WAIT_SECONDS = 900.0
# Anyone can cause failures for an account, so the per-account delay may slow down guessing but must not lock out the owner.
MAX_ACCOUNT_WAIT_SECONDS = 60.0
# Longer than the longest wait, so that waiting it out doesn't restore the five free attempts.
FAILURES_EXPIRE_AFTER = timedelta(minutes=20)
KNOWN_ADDRESS_LIFETIME = timedelta(days=30)


def client_address(peer: str, forwarded_for: str = "") -> str:
    """Return the address a request counts for; X-Forwarded-For is trusted only as far as CLAWSITE_TRUSTED_PROXIES says."""
    return addresses.resolve_client_address(peer, forwarded_for, settings.TRUSTED_PROXIES)


def address_of_request(request: HttpRequest) -> str:
    return client_address(request.META.get("REMOTE_ADDR", ""), request.META.get("HTTP_X_FORWARDED_FOR", ""))


def check(address: str, account: str = "") -> None:
    """Raise `TooManyAttempts` while the address or the account has to wait. Reads only, with plain SQL for every API request."""
    subjects = _subjects(address, account)
    rows = FailedSignIns.objects.raw(f"SELECT * FROM {FailedSignIns._meta.db_table} WHERE subject IN (%s, %s)", subjects)
    _raise_if_waiting(list(rows), *subjects)


def check_and_count(address: str, account: str) -> None:
    """Like `check`, but count the attempt as failed before it is made, so that concurrent guesses can't bypass the limit.

    For passwords, which can be guessed. `record_success(…, admitted=True)` reverts the count.
    """
    subjects = _subjects(address, account)
    with transaction.atomic():
        rows = _lock_rows(subjects)
        _raise_if_waiting(rows, *subjects)
        _count_failure(rows)


def record_failure(address: str, account: str = "") -> None:
    """Count one failure."""
    with transaction.atomic():
        _count_failure(_lock_rows(_subjects(address, account)))


def record_success(address: str, account: str = "", *, admitted: bool = False) -> None:
    """Clear the account's failures. The address keeps its own, otherwise one valid account would allow unlimited guesses."""
    of_address, of_account = _subjects(address, account)
    if FailedSignIns.objects.filter(subject=of_account).exists():  # usually there are none, and a read doesn't wait for writers
        FailedSignIns.objects.filter(subject=of_account).delete()
    if admitted:
        FailedSignIns.objects.filter(subject=of_address, failures__gt=0).update(failures=F("failures") - 1)
        KnownAddress.objects.update_or_create(account=of_account, address=of_address, defaults={"last_seen_at": timezone.now()})
        KnownAddress.objects.filter(last_seen_at__lt=timezone.now() - KNOWN_ADDRESS_LIFETIME).delete()


def wait_seconds(failures: int, max_seconds: float) -> float:
    """Return the seconds to wait after consecutive failures: 0 for up to five, then 2, 4, 8 … up to `max_seconds`."""
    return 0.0 if failures <= FREE_FAILURES else min(2.0 ** min(failures - FREE_FAILURES, 30), max_seconds)


def _subjects(address: str, account: str) -> tuple[str, str]:
    # People type passwords into the wrong field, so the input isn't stored, only a keyed digest of it.
    name = unicodedata.normalize("NFKC", account).strip().casefold()
    of_account = "account " + salted_hmac("clawsite.throttle", name, algorithm="sha256").hexdigest() if name else ""
    return "address " + addresses.canonicalize(address), of_account


def _lock_rows(subjects: tuple[str, str]) -> list[FailedSignIns]:
    """Return the rows, created if needed and locked in a fixed order, so that no count is lost and callers can't deadlock."""
    now = timezone.now()
    FailedSignIns.objects.filter(last_failed_at__lt=now - FAILURES_EXPIRE_AFTER).delete()
    keys = sorted(subject for subject in subjects if subject)
    FailedSignIns.objects.bulk_create(
        [FailedSignIns(subject=subject, last_failed_at=now) for subject in keys], ignore_conflicts=True
    )
    return list(FailedSignIns.objects.select_for_update().filter(subject__in=keys).order_by("subject"))


def _count_failure(rows: list[FailedSignIns]) -> None:
    for row in rows:
        row.failures += 1
        row.last_failed_at = timezone.now()
        row.save(update_fields=["failures", "last_failed_at"])


def _raise_if_waiting(rows: list[FailedSignIns], of_address: str, of_account: str) -> None:
    now = timezone.now()
    by_subject = {row.subject: row for row in rows}
    seconds = _remaining_wait(by_subject.get(of_address), MAX_ADDRESS_WAIT_SECONDS, now)
    account_seconds = _remaining_wait(by_subject.get(of_account), MAX_ACCOUNT_WAIT_SECONDS, now)
    if account_seconds > seconds and not _is_known(of_account, of_address, now):
        seconds = account_seconds
    if seconds > 0:
        raise TooManyAttempts(
            _("too many failed attempts; try again in %d s") % math.ceil(seconds),
            details={"code": "AUTH_RATE_LIMITED"},
            retryable=True,
            retry_after_ms=math.ceil(seconds * 1000),
        )


def _remaining_wait(row: FailedSignIns | None, max_seconds: float, now: datetime) -> float:
    if row is None or row.last_failed_at < now - FAILURES_EXPIRE_AFTER:
        return 0.0
    return (row.last_failed_at - now).total_seconds() + wait_seconds(row.failures, max_seconds)


def _is_known(of_account: str, of_address: str, now: datetime) -> bool:
    return KnownAddress.objects.filter(
        account=of_account, address=of_address, last_seen_at__gte=now - KNOWN_ADDRESS_LIFETIME
    ).exists()
