"""Write the audit log: decisions, actions and changes with their actor, in the transaction of the effect itself.

    audit_log.record("token.made", actor=actor_for_user(user), subject=("token", token.pk), name=token.name)

If the effect is rolled back, so is its entry; if the entry can't be written, the effect is rolled back. Entries are chained
later (`clawsite.infra.audit.chain`), because locking the chain in every transaction would serialize all of them. Record IDs,
names and numbers, but no text from users or models. Secrets are removed as a last safeguard, and every value has a size limit.
A cut value states its full length and hash. Command lines (`line`) are never cut: their end may be what matters.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import Any

import orjson
from django.conf import settings
from django.db import connection

from clawsite.infra import clock
from clawsite.infra.audit.actions import ACTIONS, UnknownAction
from clawsite.infra.audit.actor import Actor, current_actor
from clawsite.infra.models import AuditEntry
from clawsite.infra.observability.redact import host_secrets, redact
from clawsite.infra.text import make_storable

MAX_DETAILS_BYTES = 16_000  # bytes of the details, not counting a command line
MAX_TEXT_LENGTH = 2_000  # characters of one text in the details
COMMAND_LINE_KEY = "line"
MAX_COMMAND_LINE_LENGTH = 24_000  # characters: more than the 16 KiB limit of a line, because redaction can make it longer
MAX_KEY_LENGTH = 100
MAX_ITEMS = 50  # items of one list or mapping
MAX_DEPTH = 5
MAX_EXACT_INTEGER = 2**53  # larger numbers become text: not every JSON parser reads them exactly
INSERT_BATCH_SIZE = 500
FORMAT_VERSION = 1  # format of the digested content

COLUMNS = (
    "at", "action", "actor_kind", "actor_id", "actor_name", "subject_kind", "subject_id", "session", "run", "details", "digest",
)  # fmt: skip
WIDTHS = {field.name: field.max_length for field in AuditEntry._meta.fields if field.max_length}


@dataclass(frozen=True, slots=True)
class NewAuditEntry:
    """An entry to record. The actor defaults to the current one; `subject` is the target as (kind, id)."""

    action: str
    actor: Actor | None = None
    subject: tuple[str, Any] = ("", "")
    session: Any = ""
    run: Any = ""
    details: Mapping[str, Any] = field(default_factory=dict)


def record(
    action: str,
    *,
    actor: Actor | None = None,
    subject: tuple[str, Any] = ("", ""),
    session: Any = "",
    run: Any = "",
    **details: Any,
) -> None:
    """Add one entry in the caller's transaction. Raise UnknownAction for an unregistered action."""
    record_all([NewAuditEntry(action, actor, subject, session, run, details)])


def record_all(entries: Iterable[NewAuditEntry]) -> None:
    """Add several entries with one INSERT per batch. Plain SQL takes a third of the ORM's time; every turn with tools runs it."""
    now = clock.now()
    rows = [_to_row(entry, now) for entry in entries]
    at = connection.ops.adapt_datetimefield_value(now)
    placeholders = f"({', '.join(['%s'] * len(COLUMNS))})"
    for first in range(0, len(rows), INSERT_BATCH_SIZE):
        batch = rows[first : first + INSERT_BATCH_SIZE]
        values = [value for row in batch for value in (at, *row)]
        text = f"INSERT INTO {AuditEntry._meta.db_table} ({', '.join(COLUMNS)}) VALUES {', '.join([placeholders] * len(batch))}"
        with connection.cursor() as cursor:
            cursor.execute(text, values)


def compute_digest(at: dt.datetime, texts: Iterable[str], details: Mapping[str, Any]) -> str:
    """Hash the entry as it is read back: the time, the text columns in the order of COLUMNS, the details."""
    time = at.astimezone(dt.UTC).isoformat(timespec="microseconds")
    return sha256(orjson.dumps([FORMAT_VERSION, time, *texts, details], option=orjson.OPT_SORT_KEYS)).hexdigest()


def _to_row(entry: NewAuditEntry, now: dt.datetime) -> list[str]:
    """Return the values of all columns except the time."""
    if entry.action not in ACTIONS:
        raise UnknownAction(f"unknown audit action {entry.action!r}: add it to clawsite.infra.audit.actions.ACTIONS")
    actor = entry.actor or current_actor()
    kind, subject = entry.subject
    values = (entry.action, actor.kind, actor.id, actor.name, kind, subject, entry.session, entry.run)
    full = {name: _clean(str(value)) for name, value in zip(COLUMNS[1:9], values, strict=True)}
    cut = {f"cut_{name}": _describe_size(text) for name, text in full.items() if len(text) > WIDTHS[name]}
    texts = [text[: WIDTHS[name]] for name, text in full.items()]
    details = _bound_details({**entry.details, **cut})
    return [*texts, orjson.dumps(details).decode(), compute_digest(now, texts, details)]


def _bound_details(details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details within the limits. If they are too large overall, keep a marked excerpt."""
    bounded: dict[str, Any] = _bound_value(details, "", MAX_DEPTH)
    line = {COMMAND_LINE_KEY: bounded[COMMAND_LINE_KEY]} if COMMAND_LINE_KEY in bounded else {}
    text = orjson.dumps({name: value for name, value in bounded.items() if name != COMMAND_LINE_KEY}).decode()
    if len(text.encode()) > MAX_DETAILS_BYTES:
        return {**line, "cut": _describe_size(text), "begins": text[:MAX_TEXT_LENGTH]}
    return bounded


def _bound_value(value: Any, name: str, depth: int) -> Any:
    match value:
        case None | bool():
            return value
        case int() if -MAX_EXACT_INTEGER < value < MAX_EXACT_INTEGER:
            return value
        case Mapping() if depth:
            pairs = list(value.items())[:MAX_ITEMS]
            bounded = {_truncate(_clean(str(key)), MAX_KEY_LENGTH): _bound_value(each, str(key), depth - 1) for key, each in pairs}
            return bounded | ({"…": len(value) - MAX_ITEMS} if len(value) > MAX_ITEMS else {})
        case list() | tuple() | set() | frozenset() if depth:
            items = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
            more = [f"… and {len(items) - MAX_ITEMS} more"] if len(items) > MAX_ITEMS else []
            return [*(_bound_value(each, name, depth - 1) for each in items[:MAX_ITEMS]), *more]
    # Floats become text too: the two databases write them differently, and the digest covers what is read back.
    return _truncate(_clean(str(value), name), MAX_COMMAND_LINE_LENGTH if name == COMMAND_LINE_KEY else MAX_TEXT_LENGTH)


def _truncate(text: str, max_length: int) -> str:
    return text if len(text) <= max_length else f"{text[:max_length]}… [cut: {_describe_size(text)}]"


def _describe_size(text: str) -> str:
    """Describe the full text by length and hash."""
    return f"{len(text)} characters, sha256 {sha256(text.encode()).hexdigest()}"


def _clean(text: str, name: str = "") -> str:
    """Return storable text without anything that looks like a secret or is named like one."""
    if not text:
        return text
    head = f"{name}: " if name else ""
    return redact(f"{head}{make_storable(text)}", _secrets()).removeprefix(head)


@cache
def _secrets() -> tuple[str, ...]:
    return host_secrets([settings.SECRET_KEY, settings.GATEWAY_TOKEN])
