"""The index of the full-text search: the words of each message, in a table as both databases have it (word_table.py).

With them stand two words that no text can contain: whose session it is in, and which one. They keep a search in one's own
sessions from reading everybody's.
"""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import connection

from clawsite.infra import sql
from clawsite.infra.fulltext.table import PRIVATE, WordTable, all_of, any_of, quoted, stored
from clawsite.infra.fulltext.tokenizer import Term, words
from sessions_app.tables import ENTRY, RUN, SESSION

WORDS = "sessions_app_words"
TABLE = WordTable(WORDS, of=ENTRY, key="entry_id")
USER = "accounts_user"
OWNER, IN_SESSION = f"{PRIVATE}o", f"{PRIVATE}s"

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
        values += [entry_id, sql.uuid_value(session_id), stored(found)]
    rows = ", ".join([_ROW[connection.vendor]] * len(entries))
    sql.execute(_INSERT[connection.vendor].format(rows=rows), values)


def matching(terms: Iterable[Term], *, owner_id: int | None, session_ids: Iterable[uuid.UUID] = ()) -> str:
    """The condition as each database reads it, of words in quotes only. Without an owner: everybody's messages."""
    parts = [quoted(word, is_prefix) for term in terms for word, is_prefix in term.indexed]
    if owner_id is not None:
        places = [f"{OWNER}{owner_id}", *(IN_SESSION + session_id.hex for session_id in session_ids)]
        parts.append(any_of(quoted(place) for place in places))
    return all_of(parts)


def candidates(condition: str, *, below: int, most: int, where: str = "") -> list[tuple[Any, ...]]:
    """(id, session id, text, message id, role, moment, who asked) of matching messages, newest first, with ids below a number."""
    return sql.rows(
        f"""
        SELECT e.id, e.session_id, e.text, e.message_id, e.role, e.created_at,
          (SELECT u.username FROM {RUN} r JOIN {USER} u ON u.id = r.owner_id WHERE r.id = e.run_id AND e.role = 'user')
        FROM {WORDS} JOIN {ENTRY} e ON e.id = {TABLE.id} JOIN {SESSION} s ON s.id = e.session_id
        WHERE {TABLE.matches} AND {TABLE.id} < %s AND s.deleted_at IS NULL AND e.generation = s.generation {where}
        ORDER BY {TABLE.id} DESC LIMIT %s
        """,
        [condition, below, most],
    )


def install_trigger(**_: Any) -> None:
    """After every migration."""
    TABLE.install_trigger()
