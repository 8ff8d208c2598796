"""Helpers for handwritten SQL that differs between SQLite and PostgreSQL."""

import datetime as dt
import functools
import uuid
from collections.abc import Sequence
from typing import Any

import orjson
from django.db import connection

# Leases use the database's clock, so that clocks of different hosts are never compared.
_NOW = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "extract(epoch from clock_timestamp())::float8",
}


@functools.cache
def vendor() -> str:
    """Return `sqlite` or `postgresql`. Cached, because `connection` looks itself up for the thread at each access."""
    return connection.vendor


def execute(text: str, values: Sequence[Any] = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text, values)


def fetch_rows(text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def fetch_row(text: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
    return fetch_rows(text, values)[0]


def now_expression() -> str:
    """Return the SQL expression for the database's time, in seconds since 1970."""
    return _NOW[vendor()]


def db_now() -> float:
    """Return the database's time, in seconds since 1970."""
    return float(fetch_row(f"SELECT {now_expression()}")[0])


def has_row_locks() -> bool:
    """Whether transactions lock rows. On SQLite the write transaction itself (BEGIN IMMEDIATE) is the lock."""
    return vendor() == "postgresql"


def for_update() -> str:
    """Return the row locking clause. Empty on SQLite."""
    return " FOR UPDATE" if has_row_locks() else ""


def lock_advisory(number: int, *, shared: bool = False) -> None:
    """Hold an advisory lock until the transaction ends. Not needed on SQLite, which has one writer at a time."""
    if has_row_locks():
        execute(f"SELECT pg_advisory_xact_lock{'_shared' if shared else ''}(%s)", [number])


def placeholders(values: Sequence[Any]) -> str:
    return ", ".join(["%s"] * len(values))


def json_text(value: Any) -> str:
    return orjson.dumps(value).decode()


def uuid_value(value: uuid.UUID) -> Any:
    return value if vendor() == "postgresql" else value.hex  # SQLite has no type for it


def as_uuid(value: Any) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)


def datetime_value(value: dt.datetime) -> Any:
    return connection.ops.adapt_datetimefield_value(value)


def as_datetime(value: Any) -> dt.datetime:
    moment = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
