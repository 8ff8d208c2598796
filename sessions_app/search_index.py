"""The full-text search index: the words of each message, in a table that works on both databases (clawsite.infra.fulltext.table).

Each row also has two words that no text can contain: the session's owner and the session. They let a search of the user's own
sessions skip everyone else's rows.
"""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from clawsite.infra import sql
from clawsite.infra.fulltext.table import PRIVATE_USE_PREFIX, WordTable, match_all, match_any, quote_word, to_db_value
from clawsite.infra.fulltext.tokenizer import SearchTerm, tokenize
from sessions_app.tables import ENTRY, RUN, SESSION

TABLE_NAME = "sessions_app_words"
TABLE = WordTable(TABLE_NAME, of=ENTRY, key="entry_id")
USER_TABLE = "accounts_user"
OWNER_PREFIX, SESSION_PREFIX = f"{PRIVATE_USE_PREFIX}o", f"{PRIVATE_USE_PREFIX}s"

_INSERT = {
    "sqlite": f"""
        WITH v(id, session_id, words) AS (VALUES {{rows}}) INSERT INTO {TABLE_NAME} (rowid, words)
        SELECT v.id, v.words || ' {OWNER_PREFIX}' || s.owner_id FROM v JOIN {SESSION} s ON s.id = v.session_id
        """,
    "postgresql": f"""
        WITH v(id, session_id, words) AS (VALUES {{rows}}) INSERT INTO {TABLE_NAME} (entry_id, words)
        SELECT v.id, array_to_tsvector(v.words || ('{OWNER_PREFIX}' || s.owner_id)) FROM v JOIN {SESSION} s ON s.id = v.session_id
        """,
}
_ROW = {"sqlite": "(%s, %s, %s)", "postgresql": "(%s, %s::uuid, %s::text[])"}


def index_entries(entries: Sequence[tuple[int, uuid.UUID, str]]) -> None:
    """Add messages (id, session, text), in the transaction that stores them."""
    if not entries:
        return
    values: list[Any] = []
    for entry_id, session_id, text in entries:
        tokens = [*tokenize(text), SESSION_PREFIX + session_id.hex]
        values += [entry_id, sql.uuid_value(session_id), to_db_value(tokens)]
    rows = ", ".join([_ROW[sql.vendor()]] * len(entries))
    sql.execute(_INSERT[sql.vendor()].format(rows=rows), values)


def build_condition(terms: Iterable[SearchTerm], *, owner_id: int | None, session_ids: Iterable[uuid.UUID] = ()) -> str:
    """Build the condition in the database's syntax, from quoted words only. Without an owner, all messages match."""
    parts = [quote_word(word, is_prefix) for term in terms for word, is_prefix in term.indexed]
    if owner_id is not None:
        markers = [f"{OWNER_PREFIX}{owner_id}", *(SESSION_PREFIX + session_id.hex for session_id in session_ids)]
        parts.append(match_any(quote_word(marker) for marker in markers))
    return match_all(parts)


def find_candidates(condition: str, *, below: int, limit: int, where: str = "") -> list[tuple[Any, ...]]:
    """Return (id, session id, text, message id, role, time, author) of matching messages below an ID, newest first."""
    return sql.fetch_rows(
        f"""
        SELECT e.id, e.session_id, e.text, e.message_id, e.role, e.created_at,
          (SELECT u.username FROM {RUN} r JOIN {USER_TABLE} u ON u.id = r.owner_id WHERE r.id = e.run_id AND e.role = 'user')
        FROM {TABLE_NAME} JOIN {ENTRY} e ON e.id = {TABLE.id} JOIN {SESSION} s ON s.id = e.session_id
        WHERE {TABLE.matches} AND {TABLE.id} < %s AND s.deleted_at IS NULL AND e.generation = s.generation {where}
        ORDER BY {TABLE.id} DESC LIMIT %s
        """,
        [condition, below, limit],
    )


def install_trigger(**_: Any) -> None:
    """Install the trigger; runs after every migration."""
    TABLE.install_trigger()
