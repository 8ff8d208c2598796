"""Writing the audit log: what was decided, done or changed, by whom, in the transaction of the effect itself.

    audit.record("token.made", actor=acting.account(user), subject=("token", token.pk), name=token.name)

If the effect is rolled back, so is its entry; if the entry cannot be written, there is no effect. Entries are chained later
(`audit_chain`): a chain that every transaction had to lock would let one thing happen at a time. Ids, names and numbers belong
here, what people and models wrote does not; secrets are taken out as a last guard, and everything has a limit. What is cut says so,
with its whole length and a hash of the whole. Command lines (`line`) are never cut: their end may be what matters.
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

MAX_DETAILS_BYTES = 16_000  # bytes of details beside a command line
MAX_TEXT_LENGTH = 2_000  # characters of one text in them
COMMAND_LINE_KEY = "line"
MAX_COMMAND_LINE_LENGTH = 24_000  # characters: more than the 16 KiB that a line may have, with marks for secrets that were shorter
MAX_KEY_LENGTH = 100
MAX_ITEMS = 50  # things in one list
MAX_DEPTH = 5
MAX_EXACT_INTEGER = 2**53  # numbers beyond are text: not every reader of JSON knows them
INSERT_BATCH_SIZE = 500
FORMAT_VERSION = 1  # format of the digested content

COLUMNS = (
    "at", "action", "actor_kind", "actor_id", "actor_name", "subject_kind", "subject_id", "session", "run", "details", "digest",
)  # fmt: skip
WIDTHS = {field.name: field.max_length for field in AuditEntry._meta.fields if field.max_length}


@dataclass(frozen=True, slots=True)
class NewAuditEntry:
    """What is to be recorded. Without an actor it is whoever acts now; `subject` is what it is about: (kind, id)."""

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
    """The same for several, with one INSERT. As SQL, since every turn with tools does it: a third of what the ORM takes."""
    now = clock.now()
    rows = [_to_row(entry, now) for entry in entries]
    moment = connection.ops.adapt_datetimefield_value(now)
    mark = f"({', '.join(['%s'] * len(COLUMNS))})"
    for first in range(0, len(rows), INSERT_BATCH_SIZE):
        some = rows[first : first + INSERT_BATCH_SIZE]
        values = [value for row in some for value in (moment, *row)]
        text = f"INSERT INTO {AuditEntry._meta.db_table} ({', '.join(COLUMNS)}) VALUES {', '.join([mark] * len(some))}"
        with connection.cursor() as cursor:
            cursor.execute(text, values)


def compute_digest(at: dt.datetime, texts: Iterable[str], details: Mapping[str, Any]) -> str:
    """Over all that an entry says, as it can be read back: the moment, the texts in the order of COLUMNS, the details."""
    moment = at.astimezone(dt.UTC).isoformat(timespec="microseconds")
    return sha256(orjson.dumps([FORMAT_VERSION, moment, *texts, details], option=orjson.OPT_SORT_KEYS)).hexdigest()


def _to_row(entry: NewAuditEntry, now: dt.datetime) -> list[str]:
    """The columns after the time."""
    if entry.action not in ACTIONS:
        raise UnknownAction(f"unknown audit action {entry.action!r}: add it to clawsite.infra.audit.actions.ACTIONS")
    actor = entry.actor or current_actor()
    kind, subject = entry.subject
    given = (entry.action, actor.kind, actor.id, actor.name, kind, subject, entry.session, entry.run)
    whole = {name: _clean(str(value)) for name, value in zip(COLUMNS[1:9], given, strict=True)}
    cut = {f"cut_{name}": _describe_size(text) for name, text in whole.items() if len(text) > WIDTHS[name]}
    texts = [text[: WIDTHS[name]] for name, text in whole.items()]
    details = _bound_details({**entry.details, **cut})
    return [*texts, orjson.dumps(details).decode(), compute_digest(now, texts, details)]


def _bound_details(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the details within the limits. If they are too large overall, keep a marked excerpt."""
    kept: dict[str, Any] = _bound_value(given, "", MAX_DEPTH)
    line = {COMMAND_LINE_KEY: kept[COMMAND_LINE_KEY]} if COMMAND_LINE_KEY in kept else {}
    text = orjson.dumps({name: value for name, value in kept.items() if name != COMMAND_LINE_KEY}).decode()
    if len(text.encode()) > MAX_DETAILS_BYTES:
        return {**line, "cut": _describe_size(text), "begins": text[:MAX_TEXT_LENGTH]}
    return kept


def _bound_value(value: Any, name: str, deep: int) -> Any:
    match value:
        case None | bool():
            return value
        case int() if -MAX_EXACT_INTEGER < value < MAX_EXACT_INTEGER:
            return value
        case Mapping() if deep:
            some = list(value.items())[:MAX_ITEMS]
            kept = {_truncate(_clean(str(key)), MAX_KEY_LENGTH): _bound_value(each, str(key), deep - 1) for key, each in some}
            return kept | ({"…": len(value) - MAX_ITEMS} if len(value) > MAX_ITEMS else {})
        case list() | tuple() | set() | frozenset() if deep:
            items = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
            more = [f"… and {len(items) - MAX_ITEMS} more"] if len(items) > MAX_ITEMS else []
            return [*(_bound_value(each, name, deep - 1) for each in items[:MAX_ITEMS]), *more]
    # Numbers with a fraction become text too: the two databases write them differently, and the digest is over what is read back.
    return _truncate(_clean(str(value), name), MAX_COMMAND_LINE_LENGTH if name == COMMAND_LINE_KEY else MAX_TEXT_LENGTH)


def _truncate(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… [cut: {_describe_size(text)}]"


def _describe_size(text: str) -> str:
    """Of the whole, as it would be stored."""
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
