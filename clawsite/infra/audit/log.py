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
from clawsite.infra.audit.actor import Actor, acting
from clawsite.infra.models import AuditEntry
from clawsite.infra.observability.redact import host_secrets, redact
from clawsite.infra.text import storable

LARGEST = 16_000  # bytes of details beside a command line
LONGEST = 2_000  # characters of one text in them
LINE = "line"
LONGEST_LINE = 24_000  # characters: more than the 16 KiB that a line may have, with marks for secrets that were shorter
LONGEST_KEY = 100
MOST = 50  # things in one list
DEEPEST = 5
WHOLE = 2**53  # numbers beyond are text: not every reader of JSON knows them
IN_ONE_INSERT = 500
FORM = 1  # of what the digest is over

COLUMNS = (
    "at", "action", "actor_kind", "actor_id", "actor_name", "subject_kind", "subject_id", "session", "run", "details", "digest",
)  # fmt: skip
WIDTHS = {field.name: field.max_length for field in AuditEntry._meta.fields if field.max_length}


@dataclass(frozen=True, slots=True)
class Entry:
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
    """Add one entry, in the caller's transaction. UnknownAction for a word that the registry has not."""
    record_all([Entry(action, actor, subject, session, run, details)])


def record_all(entries: Iterable[Entry]) -> None:
    """The same for several, with one INSERT. As SQL, since every turn with tools does it: a third of what the ORM takes."""
    now = clock.now()
    rows = [_row(entry, now) for entry in entries]
    moment = connection.ops.adapt_datetimefield_value(now)
    mark = f"({', '.join(['%s'] * len(COLUMNS))})"
    for first in range(0, len(rows), IN_ONE_INSERT):
        some = rows[first : first + IN_ONE_INSERT]
        values = [value for row in some for value in (moment, *row)]
        text = f"INSERT INTO {AuditEntry._meta.db_table} ({', '.join(COLUMNS)}) VALUES {', '.join([mark] * len(some))}"
        with connection.cursor() as cursor:
            cursor.execute(text, values)


def digest_of(at: dt.datetime, texts: Iterable[str], details: Mapping[str, Any]) -> str:
    """Over all that an entry says, as it can be read back: the moment, the texts in the order of COLUMNS, the details."""
    moment = at.astimezone(dt.UTC).isoformat(timespec="microseconds")
    return sha256(orjson.dumps([FORM, moment, *texts, details], option=orjson.OPT_SORT_KEYS)).hexdigest()


def _row(entry: Entry, now: dt.datetime) -> list[str]:
    """The columns after the time."""
    if entry.action not in ACTIONS:
        raise UnknownAction(f"the audit log knows no action {entry.action!r}: add it to audit_actions.ACTIONS")
    actor = entry.actor or acting()
    kind, subject = entry.subject
    given = (entry.action, actor.kind, actor.id, actor.name, kind, subject, entry.session, entry.run)
    whole = {name: _clean(str(value)) for name, value in zip(COLUMNS[1:9], given, strict=True)}
    cut = {f"cut_{name}": _size(text) for name, text in whole.items() if len(text) > WIDTHS[name]}
    texts = [text[: WIDTHS[name]] for name, text in whole.items()]
    details = _details({**entry.details, **cut})
    return [*texts, orjson.dumps(details).decode(), digest_of(now, texts, details)]


def _details(given: Mapping[str, Any]) -> dict[str, Any]:
    """As it can be stored, in bounds. What is too much as a whole is replaced by its beginning, and says so."""
    kept: dict[str, Any] = _bounded(given, "", DEEPEST)
    line = {LINE: kept[LINE]} if LINE in kept else {}
    text = orjson.dumps({name: value for name, value in kept.items() if name != LINE}).decode()
    if len(text.encode()) > LARGEST:
        return {**line, "cut": _size(text), "begins": text[:LONGEST]}
    return kept


def _bounded(value: Any, name: str, deep: int) -> Any:
    match value:
        case None | bool():
            return value
        case int() if -WHOLE < value < WHOLE:
            return value
        case Mapping() if deep:
            some = list(value.items())[:MOST]
            kept = {_cut(_clean(str(key)), LONGEST_KEY): _bounded(each, str(key), deep - 1) for key, each in some}
            return kept | ({"…": len(value) - MOST} if len(value) > MOST else {})
        case list() | tuple() | set() | frozenset() if deep:
            items = sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)
            more = [f"… and {len(items) - MOST} more"] if len(items) > MOST else []
            return [*(_bounded(each, name, deep - 1) for each in items[:MOST]), *more]
    # Numbers with a fraction become text too: the two databases write them differently, and the digest is over what is read back.
    return _cut(_clean(str(value), name), LONGEST_LINE if name == LINE else LONGEST)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}… [cut: {_size(text)}]"


def _size(text: str) -> str:
    """Of the whole, as it would be stored."""
    return f"{len(text)} characters, sha256 {sha256(text.encode()).hexdigest()}"


def _clean(text: str, name: str = "") -> str:
    """Storable, and without what looks like a secret, or sounds like one by its name."""
    if not text:
        return text
    head = f"{name}: " if name else ""
    return redact(f"{head}{storable(text)}", _secrets()).removeprefix(head)


@cache
def _secrets() -> tuple[str, ...]:
    return host_secrets([settings.SECRET_KEY, settings.GATEWAY_TOKEN])
