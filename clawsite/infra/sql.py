"""Helpers for SQL written by hand: what SQLite and PostgreSQL spell differently."""

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import Any

import orjson
from django.db import connection

# The lease is measured by the database's clock, so that no two hosts' clocks are compared.
_NOW = {
    "sqlite": "((julianday('now') - 2440587.5) * 86400.0)",
    "postgresql": "extract(epoch from clock_timestamp())::float8",
}


def execute(text: str, values: Sequence[Any] = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(text, values)


def fetch_rows(text: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def fetch_row(text: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
    return fetch_rows(text, values)[0]


def now_expression() -> str:
    """The expression for the database's clock, in seconds since 1970."""
    return _NOW[connection.vendor]


def db_now() -> float:
    """The database's clock, in seconds since 1970."""
    return float(fetch_row(f"SELECT {now_expression()}")[0])


def for_update() -> str:
    """SQLite needs none: the transaction itself (BEGIN IMMEDIATE) is the lock."""
    return " FOR UPDATE" if connection.vendor == "postgresql" else ""


def lock_advisory(number: int, *, shared: bool = False) -> None:
    """Hold a number until the transaction ends, alone or with others who share it. On SQLite every writer is alone anyway."""
    if connection.vendor == "postgresql":
        execute(f"SELECT pg_advisory_xact_lock{'_shared' if shared else ''}(%s)", [number])


def placeholders(values: Sequence[Any]) -> str:
    return ", ".join(["%s"] * len(values))


def json_text(value: Any) -> str:
    return orjson.dumps(value).decode()


def uuid_value(value: uuid.UUID) -> Any:
    return value if connection.features.has_native_uuid_field else value.hex


def as_uuid(value: Any) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)


def datetime_value(value: dt.datetime) -> Any:
    return connection.ops.adapt_datetimefield_value(value)


def as_datetime(value: Any) -> dt.datetime:
    moment = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
