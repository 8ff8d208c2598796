"""Sealing the audit log: entries that have been committed get a position in a chain of hashes, every second.

A position is given when an entry is sealed, not when it is written: ids of PostgreSQL become visible out of order, and a late
one simply comes later in the chain. Any number of workers may seal; one row is locked while one of them does. Whether the chain
is whole is asked of `audit_verify`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django.db import connection, transaction

from clawsite.infra import clock
from clawsite.infra.models import AuditEntry, AuditHead, AuditSeal

GENESIS = "0" * 64
BATCH_SIZE = 200  # entries in one transaction: some 5 ms, so that nobody waits long for SQLite's lock
# How long an entry may take from its INSERT to its commit and still be sealed. Ours take milliseconds, and PostgreSQL ends a
# transaction that idles for 5 s.
GAP_TIMEOUT_SECONDS = 600.0
MAX_GAPS = 400

ENTRY_TABLE, SEAL_TABLE = (model._meta.db_table for model in (AuditEntry, AuditSeal))
_COLUMNS = ("position", "entry_id", "digest", "previous", "hash", "sealed_at")

Gap = list[Any]  # [first, last, seconds since 1970]


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The last position of the chain, and the hash that stands for everything up to it."""

    position: int
    hash: str


def hash_link(previous: str, position: int, entry_id: int, digest: str) -> str:
    """The hash of one place in the chain: it follows that one, and it is about this entry."""
    return sha256(f"{previous}:{position}:{entry_id}:{digest}".encode()).hexdigest()


def read_head() -> ChainHead:
    return ChainHead(*AuditHead.objects.values_list("position", "hash").get())


def has_unsealed() -> bool:
    """Whether a sealer would find something. Reads only, so that a quiet installation writes nothing."""
    known = AuditHead.objects.first()
    return known is not None and bool(_find_unsealed(known, 1))


@transaction.atomic
def seal_entries(most: int = BATCH_SIZE) -> int:
    """Chain up to so many entries; -> how many. Nothing while another worker does it: it will find ours too."""
    locked = AuditHead.objects.select_for_update(skip_locked=connection.vendor == "postgresql").first()
    found = _find_unsealed(locked, most) if locked else []
    if not locked or not found:
        return 0
    now = clock.now()
    moment = connection.ops.adapt_datetimefield_value(now)
    values: list[Any] = []
    for entry_id, digest in found:
        previous, locked.position = locked.hash, locked.position + 1
        locked.hash = hash_link(previous, locked.position, entry_id, digest)
        values += [locked.position, entry_id, digest, previous, locked.hash, moment]
    mark = f"({', '.join(['%s'] * len(_COLUMNS))})"
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {SEAL_TABLE} ({', '.join(_COLUMNS)}) VALUES {', '.join([mark] * len(found))}", values)
    ids = [entry_id for entry_id, _digest in found]
    locked.gaps = _compute_gaps(locked.gaps, locked.newest, ids, now.timestamp(), is_all=len(found) < most)
    locked.newest = max(locked.newest, ids[-1])
    locked.save()
    return len(found)


def _find_unsealed(known: AuditHead, most: int) -> list[tuple[int, str]]:
    """(id, digest) of entries in the gaps and beyond the newest, lowest ids first. Looks at nothing that is sealed."""
    parts = [f"SELECT id, digest FROM {ENTRY_TABLE} WHERE id BETWEEN %s AND %s"] * len(known.gaps)
    values = [value for first, last, _since in known.gaps for value in (first, last)]
    beyond = f"SELECT id, digest FROM (SELECT id, digest FROM {ENTRY_TABLE} WHERE id > %s ORDER BY id LIMIT %s) beyond"
    with connection.cursor() as cursor:
        cursor.execute(f"{' UNION ALL '.join([*parts, beyond])} ORDER BY 1 LIMIT %s", [*values, known.newest, most, most])
        found: list[tuple[int, str]] = cursor.fetchall()
        return found


def _compute_gaps(gaps: Sequence[Gap], newest: int, ids: Sequence[int], now: float, *, is_all: bool) -> list[Gap]:
    """The gaps when these ids are sealed: what was filled is gone, what was jumped over is new, what is old is given up."""
    left: list[Gap] = []
    for first, last, since in gaps:
        for each in [*(entry_id for entry_id in ids if first <= entry_id <= last), last + 1]:
            if first < each:
                left.append([first, each - 1, since])
            first = each + 1
    for entry_id in ids:
        if entry_id > newest + 1:
            left.append([newest + 1, entry_id - 1, now])
        newest = max(newest, entry_id)
    # Given up only by a pass that has just looked into all of them: after an outage what is there comes first.
    return [gap for gap in left if not is_all or now - gap[2] < GAP_TIMEOUT_SECONDS][-MAX_GAPS:]
