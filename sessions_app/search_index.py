"""The index of the full-text search: an FTS5 table on SQLite, a tsvector with GIN on PostgreSQL, fed with the same words.

Each message is a set of words (search_words.py) with two more that no text can contain: whose session it is in, and which one.
They keep a search in one's own sessions from reading everybody's. Neither database ever tokenises text of a person:
FTS5 splits at our spaces only, PostgreSQL gets the words as an array. Positions are not kept; what must stand together is
checked in the text itself.
"""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection

from sessions_app import sql
from sessions_app.search_words import Term, words
from sessions_app.sql import ENTRY, RUN, SESSION

WORDS = "sessions_app_words"
USER = "accounts_user"
TRIGGER = "sessions_app_words_forget"
PAGE = 500
# A private character: no letter, so no text has a word with it.
OWNER, IN_SESSION = "\ue000o", "\ue000s"

_TABLE = {
    # `ascii` leaves every character beyond ASCII alone; `detail=none` halves the index and the time to write it.
    "sqlite": [f"CREATE VIRTUAL TABLE {WORDS} USING fts5(words, tokenize='ascii', detail=none)"],
    "postgresql": [
        f"CREATE TABLE {WORDS} (entry_id bigint PRIMARY KEY REFERENCES {ENTRY} (id) ON DELETE CASCADE, words tsvector NOT NULL)",
        f"CREATE INDEX {WORDS}_gin ON {WORDS} USING gin (words)",
    ],
}
_INSERT = {
    "sqlite": f"""
        WITH v(id, session_id, words) AS (VALUES {{rows}}) INSERT INTO {WORDS} (rowid, words)
        SELECT v.id, v.words || ' {OWNER}' || s.owner_id FROM v JOIN {SESSION} s ON s.id = v.session_id
        """,
    "postgresql": f"""
        WITH v(id, session_id, words) AS (VALUES {{rows}}) INSERT INTO {WORDS} (entry_id, words)
        SELECT v.id, array_to_tsvector(v.words || ('{OWNER}' || s.owner_id)) FROM v JOIN {SESSION} s ON s.id = v.session_id
        """,
}
_ROW = {"sqlite": "(%s, %s, %s)", "postgresql": "(%s, %s::uuid, %s::text[])"}


def index_entries(entries: Sequence[tuple[int, uuid.UUID, str]]) -> None:
    """Add messages (id, session, text), in the transaction that stores them."""
    if not entries:
        return
    values: list[Any] = []
    for entry_id, session_id, text in entries:
        found = [*words(text), IN_SESSION + session_id.hex]
        values += [entry_id, sql.uuid_value(session_id), found if connection.vendor == "postgresql" else " ".join(found)]
    rows = ", ".join([_ROW[connection.vendor]] * len(entries))
    sql.execute(_INSERT[connection.vendor].format(rows=rows), values)


def matching(terms: Iterable[Term], *, owner_id: int | None, session_ids: Iterable[uuid.UUID] = ()) -> str:
    """The condition as each database reads it, of words in quotes only. Without an owner: everybody's messages."""
    is_postgres = connection.vendor == "postgresql"
    both, either = (" & ", " | ") if is_postgres else (" AND ", " OR ")
    parts = [_quoted(word, is_prefix) for term in terms for word, is_prefix in term.indexed]
    if owner_id is not None:
        places = [f"{OWNER}{owner_id}", *(IN_SESSION + session_id.hex for session_id in session_ids)]
        parts.append(f"({either.join(_quoted(place) for place in places)})")
    return both.join(parts)


def _quoted(word: str, is_prefix: bool = False) -> str:
    """A word has letters and digits only; that it cannot end its quotes is made sure of all the same."""
    if connection.vendor == "postgresql":
        inside = word.replace("\\", "\\\\").replace("'", "''")
        return f"'{inside}'" + (":*" if is_prefix else "")
    inside = word.replace('"', '""')
    return f'"{inside}"' + ("*" if is_prefix else "")


def candidates(condition: str, *, below: int, most: int, where: str = "") -> list[tuple[Any, ...]]:
    """(id, session id, text, message id, role, moment, who asked) of matching messages, newest first, with ids below a number."""
    is_postgres = connection.vendor == "postgresql"
    match = f"{WORDS}.words @@ %s::tsquery" if is_postgres else f"{WORDS} MATCH %s"
    key = f"{WORDS}.entry_id" if is_postgres else f"{WORDS}.rowid"
    return sql.rows(
        f"""
        SELECT e.id, e.session_id, e.text, e.message_id, e.role, e.created_at,
          (SELECT u.username FROM {RUN} r JOIN {USER} u ON u.id = r.owner_id WHERE r.id = e.run_id AND e.role = 'user')
        FROM {WORDS} JOIN {ENTRY} e ON e.id = {key} JOIN {SESSION} s ON s.id = e.session_id
        WHERE {match} AND {key} < %s AND s.deleted_at IS NULL AND e.generation = s.generation {where}
        ORDER BY {key} DESC LIMIT %s
        """,
        [condition, below, most],
    )


def make_tables(*_: Any) -> None:
    """For the migration."""
    for statement in _TABLE[connection.vendor]:
        sql.execute(statement)


def drop_tables(*_: Any) -> None:
    sql.execute(f"DROP TABLE IF EXISTS {WORDS}")


def index_stored(*_: Any) -> None:
    """Add every stored message; for the migration, which finds the index empty."""
    last = 0
    while rows := sql.rows(
        f"SELECT id, session_id, text FROM {ENTRY} WHERE id > %s AND kind = 'message' AND text <> '' ORDER BY id LIMIT %s",
        [last, PAGE],
    ):
        index_entries([(pk, sql.as_uuid(session_id), text) for pk, session_id, text in rows])
        last = rows[-1][0]


def install_trigger(**_: Any) -> None:
    """After every migration: what is deleted is forgotten. A migration that rebuilds SQLite's table loses its triggers."""
    if connection.vendor == "sqlite":
        sql.execute(
            f"CREATE TRIGGER IF NOT EXISTS {TRIGGER} AFTER DELETE ON {ENTRY} BEGIN DELETE FROM {WORDS} WHERE rowid = old.id; END"
        )
